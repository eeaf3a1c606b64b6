package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestJudge_RefusesWhatCannotWork(t *testing.T) {
	f := found{
		Subnets: map[string]subnet{
			"private-1": {ID: "private-1", VPC: "vpc-1", ways: ways{Route: routed}}, "private-2": {ID: "private-2", VPC: "vpc-1", ways: ways{Route: routed}}, "public": {ID: "public", VPC: "vpc-1", ways: ways{Route: public}}, "isolated": {ID: "isolated", VPC: "vpc-1", ways: ways{Route: isolated}},
			"other": {ID: "other", VPC: "vpc-2", ways: ways{Route: routed}}, "endpoints": {ID: "endpoints", VPC: "vpc-3", ways: ways{Route: isolated}}, "public-endpoints": {ID: "public-endpoints", VPC: "vpc-3", ways: ways{Route: public}},
			"six": {ID: "six", VPC: "vpc-1", ways: ways{Route: routed}, IPv6: true}, "every": {ID: "every", VPC: "vpc-4", ways: ways{Route: isolated}},
			"egress": {ID: "egress", VPC: "vpc-1", ways: ways{Egress: true}, IPv6: true}, "only": {ID: "only", VPC: "vpc-1", ways: ways{Egress: true}, IPv6: true, Only: true},
			"transit": {ID: "transit", VPC: "vpc-1", ways: ways{Route: networks}}, "transit-egress": {ID: "transit-egress", VPC: "vpc-1", ways: ways{Route: networks, Egress: true}, IPv6: true},
			"egress-endpoints": {ID: "egress-endpoints", VPC: "vpc-3", ways: ways{Egress: true}, IPv6: true},
		},
		Endpoints: map[string][]string{"vpc-1": {"com.amazonaws.eu-west-1.sts"}, "vpc-3": {"com.amazonaws.eu-west-1.ecs", "com.amazonaws.eu-west-1.logs"},
			"vpc-4": {"com.amazonaws.eu-west-1.ecs", "com.amazonaws.eu-west-1.logs", "com.amazonaws.eu-west-1.lambda"}},
	}
	const stock, own = "public.ecr.aws/hashicorp/terraform:1.16.4", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/terrapulse:1"
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
		{"an image in a registry of the VPC", wanted{Subnets: []string{"endpoints"}, Image: "registry.example.com/terraform:1.16.4"}, ""},
		{"a function in another VPC, with groups", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"other"}, Image: stock, OwnGroup: true, FunctionGroups: true}, ""},
		{"Consul with an IPv6 address", wanted{Subnets: []string{"six"}, FunctionSubnets: []string{"six"}, Image: stock, Consul: "[2001:db8::1]:8501"}, ""},
		{"Consul with a name, without IPv6", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"private-1"}, Image: stock, Consul: "consul.example.com:8501"}, ""},
		{"all functions behind NAT", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"private-1"}, Image: stock, AllFunctions: true}, ""},
		{"all functions with endpoints", wanted{Subnets: []string{"every"}, FunctionSubnets: []string{"every"}, Image: own, AllFunctions: true}, ""},

		{"subnets that lead to another network, which may have endpoints", wanted{Subnets: []string{"transit"}, FunctionSubnets: []string{"transit"}, Image: own, AllFunctions: true}, ""},
		{"the same beside an egress-only gateway", wanted{Subnets: []string{"transit-egress"}, FunctionSubnets: []string{"transit-egress", "transit"}, Image: own}, ""},

		{"public containers, a function that sends over IPv6", wanted{Subnets: []string{"public"}, FunctionSubnets: []string{"egress"}, PublicIP: true, Image: stock}, ""},
		{"containers and a function that send over IPv6", wanted{Subnets: []string{"only"}, FunctionSubnets: []string{"egress"}, Image: "123456789012.dkr-ecr.eu-west-1.on.aws/terrapulse:1"}, ""},
		{"containers that send over IPv6, with the public image", wanted{Subnets: []string{"only"}, Image: "ecr-public.aws.com/hashicorp/terraform:1.16.4"}, ""},
		{"an egress-only gateway, and endpoints", wanted{Subnets: []string{"egress-endpoints"}, FunctionSubnets: []string{"egress-endpoints"}, Image: own}, ""},

		{"containers with IPv4 addresses, and a route for IPv6 only", wanted{Subnets: []string{"egress"}, Image: own}, "ECS pulls images over IPv4 if a subnet has IPv4 addresses: choose public subnets and AssignPublicIp=true"},
		{"an image in ECR over IPv6", wanted{Subnets: []string{"only"}, Image: own}, "name the image by ACCOUNT.dkr-ecr.REGION.on.aws"},
		{"an image in ECR Public over IPv6", wanted{Subnets: []string{"only"}, Image: stock}, "or by ecr-public.aws.com"},
		{"a function without IPv4 addresses", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"only"}, Image: stock}, "Lambda needs IPv4 addresses, too"},
		{"a function with a subnet that has no IPv6", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"egress", "private-1"}, Image: stock}, "only if all subnets of the function have IPv6 addresses"},
		{"all functions over IPv6", wanted{Subnets: []string{"private-1"}, FunctionSubnets: []string{"egress"}, Image: stock, AllFunctions: true}, "none for Lambda"},
		{"Consul with an IPv6 address, containers without", wanted{Subnets: []string{"private-1"}, Image: stock, Consul: "[2001:db8::1]:8501"}, "private-1 has no IPv6 addresses, so that ConsulAddress [2001:db8::1]:8501"},
		{"Consul with an IPv6 address, a function without", wanted{Subnets: []string{"six"}, FunctionSubnets: []string{"six", "private-1"}, Image: stock, Consul: "[2001:db8::1]"}, "private-1 has no IPv6"},
		{"all functions without an endpoint for Lambda", wanted{Subnets: []string{"endpoints"}, FunctionSubnets: []string{"endpoints"}, Image: own, AllFunctions: true}, "none for Lambda"},
		{"two VPCs", wanted{Subnets: []string{"private-1", "other"}, Image: stock}, "all Subnets must be in one VPC"},
		{"containers without an address", wanted{Subnets: []string{"private-1", "public"}, Image: stock}, "public is a public subnet, in which a container without a public address reaches nothing: set AssignPublicIp=true"},
		{"containers without a route", wanted{Subnets: []string{"isolated"}, PublicIP: true, Image: own}, "isolated has no route out of its VPC"},
		{"an image on the internet, with endpoints only", wanted{Subnets: []string{"endpoints"}, Image: stock}, "the image public.ecr.aws/hashicorp/terraform:1.16.4 cannot be pulled"},
		{"an image of Docker Hub, with endpoints only", wanted{Subnets: []string{"endpoints"}, Image: "hashicorp/terraform:1.16.4"}, "cannot be pulled"},
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
	n := newNetwork(t, testtools.StartMoto(t))
	a := ec2Account{n.EC2}
	vpc := a.vpc()
	public, private, alone, other := a.subnet(vpc, 0), a.subnet(vpc, 1), a.subnet(vpc, 2), a.subnet(vpc, 3)
	gateway := must(n.EC2.CreateInternetGateway(t.Context(), &ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
	must(n.EC2.AttachInternetGateway(t.Context(), &ec2.AttachInternetGatewayInput{InternetGatewayId: gateway, VpcId: &vpc}))
	address := must(n.EC2.AllocateAddress(t.Context(), &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc}))
	nat := must(n.EC2.CreateNatGateway(t.Context(), &ec2.CreateNatGatewayInput{SubnetId: &public, AllocationId: address.AllocationId})).NatGateway.NatGatewayId
	must(n.EC2.AssociateVpcCidrBlock(t.Context(), &ec2.AssociateVpcCidrBlockInput{VpcId: &vpc, AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))
	must(n.EC2.AssociateSubnetCidrBlock(t.Context(), &ec2.AssociateSubnetCidrBlockInput{SubnetId: &other, Ipv6CidrBlock: aws.String("2600:1f18:1::/64")}))
	routeTables := map[string]*string{} // by subnet
	for subnet, to := range map[string]ec2.CreateRouteInput{public: {GatewayId: gateway}, private: {NatGatewayId: nat}, other: {NatGatewayId: nat}} {
		table := must(n.EC2.CreateRouteTable(t.Context(), &ec2.CreateRouteTableInput{VpcId: &vpc})).RouteTable.RouteTableId
		routeTables[subnet] = table
		to.RouteTableId, to.DestinationCidrBlock = table, aws.String("0.0.0.0/0")
		must(n.EC2.CreateRoute(t.Context(), &to))
		must(n.EC2.AssociateRouteTable(t.Context(), &ec2.AssociateRouteTableInput{RouteTableId: table, SubnetId: &subnet}))
	}
	ask := func(subnets, functionSubnets string, public string) (map[string]any, error) {
		id, data, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Subnets": subnets, "FunctionSubnets": functionSubnets,
			"AssignPublicIp": public, "Image": "public.ecr.aws/hashicorp/terraform:1.16.4", "OwnGroup": "true"}})
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
	must(n.EC2.CreateVpcEndpoint(t.Context(), &ec2.CreateVpcEndpointInput{VpcId: &vpc, ServiceName: aws.String("com.amazonaws.eu-west-1.logs"), VpcEndpointType: types.VpcEndpointTypeInterface}))
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
	must(n.EC2.DeleteRoute(t.Context(), &ec2.DeleteRouteInput{RouteTableId: routeTables[private], DestinationCidrBlock: aws.String("0.0.0.0/0")}))
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

// The way out decides by which endpoints function and containers reach AWS.
func TestNetwork_ChoosesDualStackEndpoints(t *testing.T) {
	const (
		egress  = `<destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><egressOnlyInternetGatewayId>eigw-1</egressOnlyInternetGatewayId>`
		nat     = `<destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId>`
		block   = `<ipv6CidrBlockAssociationSet><item><ipv6CidrBlock>2600:1f18::/64</ipv6CidrBlock></item></ipv6CidrBlockAssociationSet>`
		only    = block + `<ipv6Native>true</ipv6Native>`
		ecs     = `<vpcEndpointSet><item><vpcEndpointType>Interface</vpcEndpointType><serviceName>com.amazonaws.eu-west-1.ecs</serviceName></item></vpcEndpointSet>`
		other   = `</item><item><destinationCidrBlock>10.0.0.0/8</destinationCidrBlock><transitGatewayId>tgw-1</transitGatewayId>`
		neither = "DualStack: false, ContainerDualStack: false"
	)
	for name, tt := range map[string]struct{ route, function, container, endpoints, want string }{
		"NAT":                          {nat, block, block, "", neither},
		"an egress-only gateway":       {egress, block, "", "", "DualStack: true, ContainerDualStack: false"},
		"a gateway, and endpoints":     {egress, block, "", ecs, neither},
		"a gateway, and a network":     {egress + other, block, block, "", "DualStack: true, ContainerDualStack: false"},
		"a gateway, and no IPv6":       {egress, "", "", "", "refused: function has no route out of its VPC"},
		"containers without IPv4":      {egress, block, only, "", "DualStack: true, ContainerDualStack: true"},
		"NAT, containers without IPv4": {nat, block, only, "", "DualStack: true, ContainerDualStack: true"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `<answer><subnetSet><item><subnetId>function</subnetId><vpcId>vpc-1</vpcId>%s</item><item><subnetId>container</subnetId><vpcId>vpc-1</vpcId>%s</item></subnetSet>
					<routeTableSet><item><associationSet><item><main>true</main></item></associationSet><routeSet><item>%s</item></routeSet></item>
					<item><associationSet><item><subnetId>container</subnetId></item></associationSet><routeSet><item>%s</item></routeSet></item></routeTableSet>%s</answer>`,
					tt.function, tt.container, tt.route, map[bool]string{true: egress, false: nat}[tt.container == only], tt.endpoints)
			}))
			defer server.Close()
			_, data, err := newNetwork(t, server.URL).handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{
				"Subnets": "container", "FunctionSubnets": "function", "Image": "ecr-public.aws.com/hashicorp/terraform:1.16.4"}})
			got := fmt.Sprintf("DualStack: %v, ContainerDualStack: %v", data["DualStack"], data["ContainerDualStack"])
			if err != nil {
				got = "refused: " + err.Error()
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestRoutes_LeadToAWSOrNot(t *testing.T) {
	const (
		local     = `<destinationCidrBlock>10.0.0.0/16</destinationCidrBlock><gatewayId>local</gatewayId>`
		nat       = `<destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId>`
		internet  = `<destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>igw-1</gatewayId>`
		internet6 = `<destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><gatewayId>igw-1</gatewayId>`
		egress    = `<destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><egressOnlyInternetGatewayId>eigw-1</egressOnlyInternetGatewayId>`
		peering   = `<destinationCidrBlock>10.2.0.0/16</destinationCidrBlock><vpcPeeringConnectionId>pcx-1</vpcPeeringConnectionId>`
		firewall  = `<destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><transitGatewayId>tgw-1</transitGatewayId>`
		transit   = `<destinationCidrBlock>10.0.0.0/8</destinationCidrBlock><transitGatewayId>tgw-1</transitGatewayId>`
		nat64     = `<destinationIpv6CidrBlock>64:ff9b::/96</destinationIpv6CidrBlock><natGatewayId>nat-1</natGatewayId>`
		endpoint  = `<destinationPrefixListId>pl-1</destinationPrefixListId><gatewayId>vpce-1</gatewayId>`
		gone      = nat + `<state>blackhole</state>`
	)
	for name, tt := range map[string]struct {
		routes []string
		want   ways
	}{
		"NAT, and IPv6 by an internet gateway":                         {[]string{local, internet6, nat}, ways{Route: routed}},
		"an internet gateway for both":                                 {[]string{local, internet6, internet}, ways{Route: public}},
		"a transit gateway":                                            {[]string{local, transit}, ways{Route: networks}},
		"the internet by a transit gateway":                            {[]string{local, transit, firewall}, ways{Route: routed}},
		"a transit gateway and an egress-only gateway":                 {[]string{local, transit, egress}, ways{Route: networks, Egress: true}},
		"the internet by a transit gateway and an egress-only gateway": {[]string{local, firewall, egress}, ways{Route: routed, Egress: true}},
		"peering and NAT":                                              {[]string{peering, nat}, ways{Route: routed}},
		"NAT64":                                                        {[]string{local, nat64, egress}, ways{Route: routed, Egress: true}},
		"an egress-only gateway alone":                                 {[]string{local, egress}, ways{Egress: true}},
		"a gateway that is gone":                                       {[]string{local, egress + `<state>blackhole</state>`}, ways{Route: isolated}},

		"nothing":                           {[]string{local}, ways{Route: isolated}},
		"IPv6 by an internet gateway alone": {[]string{local, internet6}, ways{Route: isolated}},
		"a peering connection alone":        {[]string{local, peering}, ways{Route: isolated}},
		"an endpoint of S3 alone":           {[]string{local, endpoint}, ways{Route: isolated}},
		"a NAT gateway that is gone":        {[]string{local, gone}, ways{Route: isolated}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "<answer><routeTableSet><item><associationSet><item><subnetId>subnet-1</subnetId></item></associationSet><routeSet><item>%s</item></routeSet></item></routeTableSet></answer>",
					strings.Join(tt.routes, "</item><item>"))
			}))
			defer server.Close()
			if routes, err := newNetwork(t, server.URL).routes(t.Context(), "vpc-1"); err != nil || routes["subnet-1"] != tt.want {
				t.Errorf("%v, %v, want %v", routes, err, tt.want)
			}
		})
	}
}

func newNetwork(t *testing.T, address string) *network {
	return &network{EC2: ec2.NewFromConfig(configFor(t, address)), Patience: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
}

// ec2Account makes what a network has.
type ec2Account struct{ *ec2.Client }

func (a ec2Account) vpc() string {
	return *must(a.CreateVpc(context.Background(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})).Vpc.VpcId
}

func (a ec2Account) subnet(vpc string, number int) string {
	return *must(a.CreateSubnet(context.Background(), &ec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/24", number))})).Subnet.SubnetId
}

func (a ec2Account) group(vpc, name string) string {
	return *must(a.CreateSecurityGroup(context.Background(), &ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: &name, Description: &name})).GroupId
}

func must[Out any](out Out, err error) Out {
	if err != nil {
		panic(err)
	}
	return out
}

// With all functions in the VPC, this function may not reach EC2. The error says what to do.
func TestNetwork_WithoutAWayToEC2SaysWhatIsMissing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	n := newNetwork(t, server.URL)
	n.Patience = 100 * time.Millisecond
	for all, want := range map[string]string{"true": "they need a NAT gateway or the endpoints of infra/network.yaml", "false": "connection refused"} {
		_, _, err := n.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Subnets": "subnet-1", "FunctionSubnets": "subnet-1", "AllFunctions": all}})
		if err == nil || !strings.Contains(err.Error(), want) || all == "false" && strings.Contains(err.Error(), "FunctionsInVpc") {
			t.Errorf("AllFunctions=%s: %v", all, err)
		}
	}
}
