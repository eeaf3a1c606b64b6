package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// newGroupUse returns the resource with an EC2 at an address.
func newGroupUse(t *testing.T, address string) *groupUse {
	return &groupUse{EC2: ec2.NewFromConfig(configFor(t, address)), Log: slog.New(slog.DiscardHandler)}
}

func (g *groupUse) remove(t *testing.T, id, group string) error {
	t.Helper()
	_, _, err := g.handle(t.Context(), cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: id, ResourceProperties: map[string]any{"Group": group}})
	return err
}

// Consul's security group names that of the stack, as the guide advises. EC2, which moto is here,
// then does not delete the stack's group.
func TestGroupUse_DeletionSaysWhoUsesTheGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("starts moto")
	}
	g := newGroupUse(t, testtools.StartMoto(t))
	a := ec2Account{g.EC2}
	vpc := a.vpc()
	subnet := a.subnet(vpc, 0)
	own, consul := a.group(vpc, "own"), a.group(vpc, "consul-servers")
	if err := g.remove(t, own, own); err != nil {
		t.Errorf("nobody uses the group: %v", err)
	}
	rule := []types.IpPermission{{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(8501), ToPort: aws.Int32(8501), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &own}}}}
	must(g.EC2.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &consul, IpPermissions: rule}))
	if err := g.remove(t, own, own); err == nil || !strings.Contains(err.Error(), consul+" (consul-servers) has an inbound rule with it") {
		t.Errorf("with a rule of Consul's group: %v", err)
	}
	if err := g.remove(t, "failed", own); err != nil {
		t.Errorf("after a failed creation: %v", err)
	}
	must(g.EC2.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{GroupId: &consul, IpPermissions: rule}))
	made := must(g.EC2.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet, Groups: []string{own}, Description: aws.String("of a person")}))
	if err := g.remove(t, own, own); err == nil || !strings.Contains(err.Error(), *made.NetworkInterface.NetworkInterfaceId+" (of a person) has it") {
		t.Errorf("with a network interface: %v", err)
	}
}

// Lambda's own interfaces go with the functions, and a right that is missing does not keep a stack.
func TestGroupUse_DeletionIsNotHeldByLambdaOrAMissingRight(t *testing.T) {
	for answer, status := range map[string]int{
		`<r><networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><interfaceType>lambda</interfaceType></item></networkInterfaceSet></r>`:          200,
		`<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this operation.</Message></Error></Errors></Response>`: 403,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(answer))
		}))
		if err := newGroupUse(t, server.URL).remove(t, "sg-1", "sg-1"); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
}
