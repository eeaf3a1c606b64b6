package main

import (
	"encoding/xml"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestJudge_RefusesWhatCannotWork(t *testing.T) {
	f := found{
		Subnets: map[string]subnet{
			"private-1": {ID: "private-1", VPC: "vpc-1", Route: routed}, "private-2": {ID: "private-2", VPC: "vpc-1", Route: routed}, "public": {ID: "public", VPC: "vpc-1", Route: public}, "isolated": {ID: "isolated", VPC: "vpc-1", Route: isolated},
			"other": {ID: "other", VPC: "vpc-2", Route: routed}, "endpoints": {ID: "endpoints", VPC: "vpc-3", Route: isolated}, "public-endpoints": {ID: "public-endpoints", VPC: "vpc-3", Route: public},
			"six": {ID: "six", VPC: "vpc-1", Route: routed, IPv6: true}, "every": {ID: "every", VPC: "vpc-4", Route: isolated},
		},
		Endpoints: map[string][]string{"vpc-1": {"com.amazonaws.eu-west-1.sts"}, "vpc-3": {"com.amazonaws.eu-west-1.ecs", "com.amazonaws.eu-west-1.logs"},
			"vpc-4": {"com.amazonaws.eu-west-1.ecs", "com.amazonaws.eu-west-1.logs", "com.amazonaws.eu-west-1.lambda"}},
	}
	const stock, own = "public.ecr.aws/hashicorp/terraform:1.11.4", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/terrapulse:1"
	for _, tt := range []struct {
		name    string
		w       wanted
		refused string
	}{
		{"private subnets", wanted{Subnets: []string{"private-1", "private-2"}, FunctionSubnets: []string{"private-1", "private-2"}, Image: stock, OwnGroup: true}, ""},
		{"public subnets, for containers alone", wanted{Subnets: []string{"public"}, PublicIP: true, Image: stock}, ""},
		{"public containers, a private function", wanted{Subnets: []string{"public"}, FunctionSubnets: []string{"private-1"}, PublicIP: true, Image: stock}, ""},
		{"endpoints", wanted{Subnets: []string{"endpoints"}, FunctionSubnets: []string{"endpoints"}, Image: own}, ""},
		{"an image in ECR by its FIPS endpoint", wanted{Subnets: []string{"endpoints"}, Image: "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com/terrapulse:1"}, ""},
		{"an image in a registry of the VPC", wanted{Subnets: []string{"endpoints"}, Image: "registry.example.com/terraform:1.11.4"}, ""},
		{"a function in another VPC, with groups", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"other"}, Image: stock, OwnGroup: true, FunctionGroups: true}, ""},
		{"Consul with an IPv6 address", wanted{Subnets: []string{"six"}, FunctionSubnets: []string{"six"}, Image: stock, Consul: "[2001:db8::1]:8501"}, ""},
		{"Consul with a name, without IPv6", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"private-1"}, Image: stock, Consul: "consul.example.com:8501"}, ""},
		{"all functions behind NAT", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"private-1"}, Image: stock, AllFunctions: true}, ""},
		{"all functions with endpoints", wanted{Subnets: []string{"every"}, FunctionSubnets: []string{"every"}, Image: own, AllFunctions: true}, ""},

		{"Consul with an IPv6 address, containers without", wanted{Subnets: []string{"private-1"}, Image: stock, Consul: "[2001:db8::1]:8501"}, "private-1 has no IPv6 addresses, so that ConsulAddress [2001:db8::1]:8501"},
		{"Consul with an IPv6 address, a function without", wanted{Subnets: []string{"six"}, FunctionSubnets: []string{"six", "private-1"}, Image: stock, Consul: "[2001:db8::1]"}, "private-1 has no IPv6"},
		{"all functions without an endpoint for Lambda", wanted{Subnets: []string{"endpoints"}, FunctionSubnets: []string{"endpoints"}, Image: own, AllFunctions: true}, "none for Lambda"},
		{"two VPCs", wanted{Subnets: []string{"private-1", "other"}, Image: stock}, "all Subnets must be in one VPC"},
		{"containers without an address", wanted{Subnets: []string{"private-1", "public"}, Image: stock}, "public is a public subnet, in which a container without a public address reaches nothing: set AssignPublicIp=true"},
		{"containers without a route", wanted{Subnets: []string{"isolated"}, PublicIP: true, Image: own}, "isolated has no route out of its VPC"},
		{"an image on the internet, with endpoints only", wanted{Subnets: []string{"endpoints"}, Image: stock}, "the image public.ecr.aws/hashicorp/terraform:1.11.4 cannot be pulled"},
		{"an image of Docker Hub, with endpoints only", wanted{Subnets: []string{"endpoints"}, Image: "hashicorp/terraform:1.11.4"}, "cannot be pulled"},
		{"the same without a public address", wanted{Subnets: []string{"public-endpoints"}, Image: stock}, "cannot be pulled"},
		{"a function in a public subnet", wanted{Subnets: []string{"public"}, FunctionSubnets: []string{"public"}, PublicIP: true, Image: stock}, "a function has no public address"},
		{"a function without a route", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"isolated"}, Image: stock}, "isolated has no route out of its VPC"},
		{"a function in two VPCs", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"private-1", "other"}, Image: stock}, "all subnets of the function must be in one VPC"},
		{"a function in another VPC, without groups", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"other"}, Image: stock}, "set FunctionSecurityGroups to groups of vpc-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := judge(tt.w, f)
			if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%v, want %q", err, tt.refused)
			}
		})
	}
}

// The VPC and the routes are read from EC2, which moto is here.
func TestNetwork_IsReadFromEC2(t *testing.T) {
	if testing.Short() {
		t.Skip("starts moto")
	}
	n := &network{EC2: newEC2(aws.Config{Region: "eu-west-1", HTTPClient: http.DefaultClient, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, testtools.StartMoto(t)),
		Log: slog.New(slog.DiscardHandler)}
	vpc := n.create(t, "CreateVpc", "vpcId", "CidrBlock=10.0.0.0/16")
	public := n.create(t, "CreateSubnet", "subnetId", "VpcId="+vpc, "CidrBlock=10.0.0.0/24")
	private := n.create(t, "CreateSubnet", "subnetId", "VpcId="+vpc, "CidrBlock=10.0.1.0/24")
	alone := n.create(t, "CreateSubnet", "subnetId", "VpcId="+vpc, "CidrBlock=10.0.2.0/24")
	gateway := n.create(t, "CreateInternetGateway", "internetGatewayId")
	n.create(t, "AttachInternetGateway", "", "InternetGatewayId="+gateway, "VpcId="+vpc)
	address := n.create(t, "AllocateAddress", "allocationId", "Domain=vpc")
	nat := n.create(t, "CreateNatGateway", "natGatewayId", "SubnetId="+public, "AllocationId="+address)
	other := n.create(t, "CreateSubnet", "subnetId", "VpcId="+vpc, "CidrBlock=10.0.3.0/24")
	n.create(t, "AssociateVpcCidrBlock", "associationId", "VpcId="+vpc, "AmazonProvidedIpv6CidrBlock=true")
	n.create(t, "AssociateSubnetCidrBlock", "associationId", "SubnetId="+other, "Ipv6CidrBlock=2600:1f18:1::/64")
	routeTables := map[string]string{} // by subnet
	for subnet, to := range map[string]string{public: "GatewayId=" + gateway, private: "NatGatewayId=" + nat, other: "NatGatewayId=" + nat} {
		table := n.create(t, "CreateRouteTable", "routeTableId", "VpcId="+vpc)
		routeTables[subnet] = table
		n.create(t, "CreateRoute", "", "RouteTableId="+table, "DestinationCidrBlock=0.0.0.0/0", to)
		n.create(t, "AssociateRouteTable", "associationId", "RouteTableId="+table, "SubnetId="+subnet)
	}
	ask := func(subnets, functionSubnets string, public string) (map[string]any, error) {
		id, data, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Subnets": subnets, "FunctionSubnets": functionSubnets,
			"AssignPublicIp": public, "Image": "public.ecr.aws/hashicorp/terraform:1.11.4", "OwnGroup": "true"}})
		if id == "" {
			t.Error("no id")
		}
		return data, err
	}
	if data, err := ask(private, private, "false"); err != nil || data["VpcId"] != vpc {
		t.Errorf("%v, %v", data, err)
	}
	for subnets, six := range map[string]string{other: "true", other + "," + private: "false", "": "false"} {
		if data, err := ask(private, subnets, "false"); err != nil || data["Ipv6"] != six {
			t.Errorf("a function in %q sends over IPv6: %v, %v", subnets, data, err)
		}
	}
	if data, err := ask(public, "", "true"); err != nil || data["VpcId"] != vpc {
		t.Errorf("%v, %v", data, err)
	}
	if _, err := ask(public, private, "false"); err == nil || !strings.Contains(err.Error(), public+" is a public subnet") {
		t.Errorf("%v", err)
	}
	if _, err := ask(alone, alone, "false"); err == nil || !strings.Contains(err.Error(), alone+" has no route") {
		t.Errorf("%v", err)
	}
	// A participant of a shared VPC does not see what its owner has.
	shared := cfn.Event{RequestType: cfn.RequestCreate, StackID: "arn:aws:cloudformation:eu-west-1:999999999999:stack/terrapulse/1",
		ResourceProperties: map[string]any{"Subnets": alone, "FunctionSubnets": alone, "AssignPublicIp": "false", "OwnGroup": "true"}}
	if _, data, err := n.handle(t.Context(), shared); err != nil || data["VpcId"] != vpc {
		t.Errorf("shared subnets: %v, %v", data, err)
	}
	if _, err := ask("subnet-00000000", "", "false"); err == nil || !strings.Contains(err.Error(), "InvalidSubnetID.NotFound") {
		t.Errorf("%v", err)
	}
	n.create(t, "CreateVpcEndpoint", "vpcEndpointId", "VpcId="+vpc, "ServiceName=com.amazonaws.eu-west-1.logs", "VpcEndpointType=Interface")
	if _, err := ask(alone, "", "false"); err == nil || !strings.Contains(err.Error(), "cannot be pulled") {
		t.Errorf("%v", err)
	}

	// An update that is rolled back returns to what was accepted, whatever the network is now.
	update := func(subnets, id string) (string, error) {
		id, _, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestUpdate, PhysicalResourceID: id, ResourceProperties: map[string]any{"Subnets": subnets, "OwnGroup": "true"}})
		return id, err
	}
	was, err := update(private, "network")
	if err != nil {
		t.Fatal(err)
	}
	refused, err := update(public, was)
	if err == nil || refused != was {
		t.Errorf("a public subnet: %s, %v", refused, err)
	}
	n.create(t, "DeleteRoute", "", "RouteTableId="+routeTables[private], "DestinationCidrBlock=0.0.0.0/0")
	if _, err := update(private, "network"); err == nil {
		t.Error("accepted a subnet without a route")
	}
	if id, err := update(private, refused); err != nil || id != was {
		t.Errorf("the rollback of a refused update: %s, %v", id, err)
	}
	now, err := update(other, was)
	if err != nil || now == was {
		t.Fatalf("%s, %v", now, err)
	}
	if _, err := update(private, now); err != nil {
		t.Errorf("the rollback of an update that was accepted: %v", err)
	}
	if id, _, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "1"}); id != "1" || err != nil {
		t.Errorf("delete: %s, %v", id, err)
	}
}

// The route of IPv4 decides whether a subnet is public.
func TestRoutes_OfSubnetsWithIPv6(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "<answer><routeTableSet>")
		for subnet, gateways := range map[string][2]string{"private": {"nat-1", "igw-1"}, "public": {"igw-1", "igw-1"}, "six": {"", "igw-1"}} {
			fmt.Fprintf(w, `<item><associationSet><item><subnetId>%s</subnetId></item></associationSet><routeSet>
				<item><destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><gatewayId>%s</gatewayId></item>`, subnet, gateways[1])
			if gateways[0] != "" {
				fmt.Fprintf(w, `<item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>%s</gatewayId></item>`, gateways[0])
			}
			fmt.Fprint(w, "</routeSet></item>")
		}
		fmt.Fprint(w, "</routeTableSet></answer>")
	}))
	defer server.Close()
	n := &network{EC2: newEC2(aws.Config{Region: "eu-west-1", HTTPClient: http.DefaultClient, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, server.URL)}
	routes, err := n.routes(t.Context(), "vpc-1")
	if want := map[string]route{"private": routed, "public": public, "six": routed}; err != nil || !maps.Equal(routes, want) {
		t.Errorf("%v, %v, want %v", routes, err, want)
	}
}

// create calls an operation with parameters such as VpcId=vpc-1, and returns an element of the
// answer.
func (n *network) create(t *testing.T, operation, element string, parameters ...string) string {
	t.Helper()
	values := url.Values{}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		values.Set(name, value)
	}
	var answer struct {
		Content []byte `xml:",innerxml"`
	}
	if err := n.EC2.call(t.Context(), operation, values, &answer); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader("<answer>" + string(answer.Content) + "</answer>"))
	for element != "" {
		token, err := decoder.Token()
		if err != nil {
			t.Fatalf("%s: no %s in %s", operation, element, answer.Content)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == element {
			var text string
			if err := decoder.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
	return ""
}

// With all functions in the VPC, this function may not reach EC2. The error says what to do.
func TestNetwork_WithoutAWayToEC2SaysWhatIsMissing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	n := &network{EC2: newEC2(aws.Config{Region: "eu-west-1", HTTPClient: http.DefaultClient, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, server.URL),
		Log: slog.New(slog.DiscardHandler)}
	for all, want := range map[string]string{"true": "they need a NAT gateway or the endpoints of infra/network.yaml", "false": "connection refused"} {
		_, _, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Subnets": "subnet-1", "FunctionSubnets": "subnet-1", "AllFunctions": all}})
		if err == nil || !strings.Contains(err.Error(), want) || all == "false" && strings.Contains(err.Error(), "AllFunctionsInVpc") {
			t.Errorf("AllFunctions=%s: %v", all, err)
		}
	}
}
