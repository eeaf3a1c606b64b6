package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// network finds the VPC of the subnets, and refuses subnets in which the function or the containers
// could not work.
type network struct {
	EC2      *ec2.Client
	Patience time.Duration
	Log      *slog.Logger
}

// wanted are the parameters of the stack that concern the network.
type wanted struct {
	Subnets         []string
	FunctionSubnets []string // of the function; none if it runs outside of a VPC
	PublicIP        bool
	Image           string // of the containers
	OwnGroup        bool   // the stack creates the security group
	FunctionGroups  bool   // the function has other security groups than the containers
	AllFunctions    bool   // the other functions, such as this one, run beside it
	Consul          string // its address
}

// route says what the routes of a subnet lead to over IPv4.
type route int

const (
	isolated route = iota // nothing
	networks              // other networks, such as by a transit gateway: they may have endpoints of AWS
	routed                // everything, such as by a NAT gateway: it may lead to the internet
	public                // an internet gateway
)

// ways are where the routes of a table lead.
type ways struct {
	Route  route
	Egress bool // an egress-only internet gateway: to what has an IPv6 address, such as the dual-stack endpoints of AWS
}

// subnet is a subnet with its routes.
type subnet struct {
	ID, VPC string
	ways
	IPv6 bool // it has IPv6 addresses
	Only bool // it has no IPv4 addresses
}

// found is what exists.
type found struct {
	Subnets   map[string]subnet
	Endpoints map[string][]string // names of services with an interface endpoint, by VPC
	complete  bool                // everything was read
}

// handle checks the network. Parameters that were accepted before are accepted again: a failed update
// is rolled back to them, even if the network has changed since.
func (n *network) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	if e.RequestType == cfn.RequestDelete {
		return e.PhysicalResourceID, nil, nil
	}
	w := wanted{
		Subnets: split(property(e.ResourceProperties, "Subnets")), FunctionSubnets: split(property(e.ResourceProperties, "FunctionSubnets")),
		PublicIP: property(e.ResourceProperties, "AssignPublicIp") == "true", Image: property(e.ResourceProperties, "Image"),
		OwnGroup: property(e.ResourceProperties, "OwnGroup") == "true", FunctionGroups: property(e.ResourceProperties, "FunctionGroups") == "true",
		AllFunctions: property(e.ResourceProperties, "AllFunctions") == "true", Consul: property(e.ResourceProperties, "Consul"),
	}
	id, before := identify(w, e.PhysicalResourceID)
	var f found
	err = patiently(ctx, n.Patience, func(ctx context.Context) (err error) {
		f, err = n.find(ctx, account(e.StackID), slices.Concat(w.Subnets, w.FunctionSubnets))
		return err
	})
	if isDenied(err) && !w.OwnGroup {
		n.Log.Warn("the subnets are not checked: the right to read them is missing", "error", err)
		return id, attributes(w, found{}), nil
	}
	if err == nil {
		err = judge(w, f)
		if err != nil && before {
			n.Log.Warn("the stack returns to subnets that are refused now", "error", err)
			err = nil
		}
	}
	if answer := smithy.APIError(nil); err != nil && w.AllFunctions && !f.complete && !errors.As(err, &answer) {
		err = fmt.Errorf("the function reaches no EC2 from its subnets: %w: with FunctionsInVpc=all, they need a NAT gateway or the endpoints of infra/network.yaml", err)
	}
	if err != nil {
		return cmp.Or(e.PhysicalResourceID, id), nil, err
	}
	return id, attributes(w, f), nil
}

// attributes are those of the resource: the VPC of the containers, whether the functions can send over
// IPv6, and whether containers and function use the dual-stack endpoints of AWS. A container gets its
// program by an address that the function makes.
func attributes(w wanted, f found) map[string]any {
	containers := slices.ContainsFunc(w.Subnets, func(id string) bool { return f.Subnets[id].Only })
	function := containers || sixFor(w, f) && slices.ContainsFunc(w.FunctionSubnets, func(id string) bool {
		s := f.Subnets[id]
		return s.Egress && s.Route < routed && !f.endpoint(s, "ecs")
	})
	return map[string]any{"VpcId": f.Subnets[w.Subnets[0]].VPC, "Ipv6": strconv.FormatBool(sixFor(w, f)),
		"DualStack": strconv.FormatBool(function), "ContainerDualStack": strconv.FormatBool(containers)}
}

// sixFor reports whether the functions can send over IPv6. Lambda refuses it if one of the subnets has no IPv6.
func sixFor(w wanted, f found) bool {
	return len(w.FunctionSubnets) > 0 && !slices.ContainsFunc(w.FunctionSubnets, func(id string) bool { return !f.Subnets[id].IPv6 })
}

// endpoint reports whether the VPC of a subnet has an interface endpoint for a service.
func (f found) endpoint(s subnet, service string) bool {
	return slices.ContainsFunc(f.Endpoints[s.VPC], func(name string) bool { return strings.HasSuffix(name, "."+service) })
}

// identify returns the id of the resource, which has the digests of the current and of the previous
// parameters, and whether the id before has that of the current ones.
func identify(w wanted, previous string) (id string, before bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%v", w))
	digest := hex.EncodeToString(sum[:8])
	digests := strings.Split(previous, "-")[1:]
	before = slices.Contains(digests, digest)
	digests = slices.DeleteFunc(digests, func(d string) bool { return d == digest })
	digests = append([]string{"network", digest}, digests...)
	return strings.Join(digests[:min(3, len(digests))], "-"), before
}

// account returns the account of a stack's ARN, such as
// arn:aws:cloudformation:eu-west-1:123456789012:stack/terrapulse/1.
func account(stack string) string {
	if parts := strings.Split(stack, ":"); len(parts) > 4 {
		return parts[4]
	}
	return ""
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// judge returns why a deployment cannot work. What may work is accepted: a route may lead through
// another network to the internet or to endpoints.
func judge(w wanted, f found) error {
	vpc := f.Subnets[w.Subnets[0]].VPC
	if strings.HasPrefix(w.Consul, "[") { // an IPv6 address: a name may have an IPv4 address, too
		for _, id := range slices.Concat(w.Subnets, w.FunctionSubnets) {
			if !f.Subnets[id].IPv6 {
				return fmt.Errorf("%s has no IPv6 addresses, so that ConsulAddress %s cannot be reached from it: choose subnets with IPv6, or a name or an IPv4 address of Consul", id, w.Consul)
			}
		}
	}
	for _, id := range w.Subnets {
		s := f.Subnets[id]
		reachesAWS := s.Route == networks || s.Route == routed || s.Route == public && w.PublicIP || s.Egress && s.Only
		endpoint := f.endpoint(s, "logs")
		switch {
		case s.VPC != vpc:
			return fmt.Errorf("%s is in %s, and %s in %s: all Subnets must be in one VPC", w.Subnets[0], vpc, id, s.VPC)
		case !reachesAWS && !endpoint && s.Route == public:
			return fmt.Errorf("%s is a public subnet, in which a container without a public address reaches nothing: set AssignPublicIp=true, or choose private subnets with a route to a NAT gateway", id)
		case !reachesAWS && !endpoint && s.Egress: // https://github.com/aws/containers-roadmap/issues/2792
			return fmt.Errorf("%s leads out of its VPC over IPv6 only, and ECS pulls images over IPv4 if a subnet has IPv4 addresses: choose public subnets and AssignPublicIp=true, or subnets that have IPv6 addresses only", id)
		case !reachesAWS && !endpoint:
			return fmt.Errorf("%s has no route out of its VPC: choose subnets with a route to a NAT gateway, or create infra/network.yaml first", id)
		case !reachesAWS && onInternet(w.Image):
			return fmt.Errorf("from %s, only VPC endpoints can be reached, so that the image %s cannot be pulled: set RunnerImage, or TerraformImage, to an image in ECR", id, w.Image)
		case s.Egress && s.Only && s.Route < routed && overIPv4(w.Image):
			return fmt.Errorf("%s leads out of its VPC over IPv6 only, and the registry of the image %s has IPv4 addresses only: name the image by ACCOUNT.dkr-ecr.REGION.on.aws, or by ecr-public.aws.com instead of public.ecr.aws", id, w.Image)
		}
	}
	six := sixFor(w, f)
	for _, id := range w.FunctionSubnets {
		s := f.Subnets[id]
		endpoint := f.endpoint(s, "ecs")
		first := f.Subnets[w.FunctionSubnets[0]]
		switch {
		case s.VPC != first.VPC:
			return fmt.Errorf("%s is in %s, and %s in %s: all subnets of the function must be in one VPC", first.ID, first.VPC, id, s.VPC)
		case s.VPC != vpc && !w.FunctionGroups:
			return fmt.Errorf("FunctionSubnets are in %s, and Subnets in %s: set FunctionSecurityGroups to groups of %s", s.VPC, vpc, s.VPC)
		case s.Route == public && !endpoint:
			return fmt.Errorf("%s is a public subnet, in which the function reaches no AWS service, because a function has no public address: set FunctionSubnets to private subnets, or FunctionsInVpc=none for a Consul on the internet", id)
		case s.Only:
			return fmt.Errorf("%s has IPv6 addresses only, and Lambda needs IPv4 addresses, too: set FunctionSubnets to subnets with both", id)
		case s.Route == isolated && s.Egress && !endpoint && !six:
			return fmt.Errorf("%s leads out of its VPC over IPv6 only, which Lambda uses only if all subnets of the function have IPv6 addresses: choose other FunctionSubnets", id)
		case s.Route == isolated && !s.Egress && !endpoint:
			return fmt.Errorf("%s has no route out of its VPC: choose subnets with a route to a NAT gateway for the function, or create infra/network.yaml first", id)
		case (s.Route == isolated || s.Route == public) && w.AllFunctions && !f.endpoint(s, "lambda"):
			return fmt.Errorf("from %s, only VPC endpoints can be reached, and there is none for Lambda, which functions invoke: create infra/network.yaml with AllFunctions=true", id)
		}
	}
	return nil
}

// onInternet reports whether only the internet reaches the registry of an image. Another registry
// may be in a VPC, or ECR with an endpoint.
func onInternet(image string) bool {
	host, _, named := strings.Cut(image, "/")
	return !named || !strings.ContainsAny(host, ".:") || // on Docker Hub
		slices.Contains([]string{"docker.io", "index.docker.io", "public.ecr.aws", "ghcr.io", "quay.io"}, host)
}

// overIPv4 reports whether a registry of AWS has no IPv6 addresses. Other registries may have some.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-requests.html
func overIPv4(image string) bool {
	host, _, _ := strings.Cut(image, "/")
	return host == "public.ecr.aws" || strings.Contains(host, ".dkr.ecr")
}

// find reads the subnets with these ids, their routes, and the endpoints of their VPCs. Another account
// may share subnets with the account of the stack, which then sees no endpoints of the VPC, and not
// all route tables.
func (n *network) find(ctx context.Context, account string, ids []string) (found, error) {
	f := found{Subnets: map[string]subnet{}, Endpoints: map[string][]string{}}
	slices.Sort(ids)
	var subnets []types.Subnet
	pages := ec2.NewDescribeSubnetsPaginator(n.EC2, &ec2.DescribeSubnetsInput{SubnetIds: slices.Compact(ids)})
	err := eachPage(ctx, pages, func(page *ec2.DescribeSubnetsOutput) { subnets = append(subnets, page.Subnets...) })
	if err != nil {
		return f, err
	}
	tables := map[string]map[string]ways{} // by VPC and subnet; "" is the main table's
	for _, s := range subnets {
		id, vpc := *s.SubnetId, *s.VpcId
		if tables[vpc] == nil {
			if tables[vpc], err = n.routes(ctx, vpc); err != nil {
				return f, err
			}
			if f.Endpoints[vpc], err = n.endpoints(ctx, vpc); err != nil {
				return f, err
			}
		}
		to, ok := tables[vpc][id]
		if !ok {
			to = tables[vpc][""]
		}
		if account != "" && s.OwnerId != nil && *s.OwnerId != account {
			to = ways{Route: routed} // perhaps
		}
		gone := []types.SubnetCidrBlockStateCode{types.SubnetCidrBlockStateCodeDisassociating, types.SubnetCidrBlockStateCodeDisassociated,
			types.SubnetCidrBlockStateCodeFailing, types.SubnetCidrBlockStateCodeFailed}
		six := slices.ContainsFunc(s.Ipv6CidrBlockAssociationSet, func(block types.SubnetIpv6CidrBlockAssociation) bool {
			return block.Ipv6CidrBlockState == nil || !slices.Contains(gone, block.Ipv6CidrBlockState.State)
		})
		to.Egress = to.Egress && six
		f.Subnets[id] = subnet{id, vpc, to, six, aws.ToBool(s.Ipv6Native)}
	}
	f.complete = true
	return f, nil
}

// routes returns where the subnets of a VPC lead, by their ids; those that are not in it lead where
// the entry "" leads.
func (n *network) routes(ctx context.Context, vpc string) (map[string]ways, error) {
	routes := map[string]ways{}
	pages := ec2.NewDescribeRouteTablesPaginator(n.EC2, &ec2.DescribeRouteTablesInput{Filters: filtered("vpc-id", vpc)})
	err := eachPage(ctx, pages, func(page *ec2.DescribeRouteTablesOutput) {
		for _, t := range page.RouteTables {
			var to ways
			for _, r := range t.Routes {
				to.Route = max(to.Route, leads(r))
				to.Egress = to.Egress || r.EgressOnlyInternetGatewayId != nil && r.State != types.RouteStateBlackhole
			}
			for _, a := range t.Associations {
				if aws.ToBool(a.Main) {
					routes[""] = to
				} else if a.SubnetId != nil {
					routes[*a.SubnetId] = to
				}
			}
		}
	})
	return routes, err
}

// leads returns where a route leads to over IPv4. A NAT gateway leads to the internet, also over NAT64. A
// peering connection leads to one other VPC, but not to its gateways.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html
func leads(r types.Route) route {
	gateway, all := aws.ToString(r.GatewayId), aws.ToString(r.DestinationCidrBlock) == "0.0.0.0/0"
	switch {
	case r.State == types.RouteStateBlackhole, gateway == "local", strings.HasPrefix(gateway, "vpce-"),
		r.VpcPeeringConnectionId != nil, r.EgressOnlyInternetGatewayId != nil, strings.HasPrefix(gateway, "igw-") && !all:
		return isolated
	case strings.HasPrefix(gateway, "igw-"):
		return public
	case r.NatGatewayId != nil, all:
		return routed
	}
	return networks // by a transit gateway, a network interface…
}

// endpoints returns the services that have an interface endpoint in a VPC.
func (n *network) endpoints(ctx context.Context, vpc string) (services []string, err error) {
	pages := ec2.NewDescribeVpcEndpointsPaginator(n.EC2, &ec2.DescribeVpcEndpointsInput{Filters: filtered("vpc-id", vpc)})
	err = eachPage(ctx, pages, func(page *ec2.DescribeVpcEndpointsOutput) {
		for _, e := range page.VpcEndpoints {
			if e.VpcEndpointType == types.VpcEndpointTypeInterface {
				services = append(services, *e.ServiceName)
			}
		}
	})
	return services, err
}
