package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// newGroupUse returns the resource with an EC2 at an address.
func newGroupUse(address string) *groupUse {
	cfg := aws.Config{Region: "eu-west-1", HTTPClient: http.DefaultClient, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	return &groupUse{EC2: newEC2(cfg, address), Log: slog.New(slog.DiscardHandler)}
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
	g := newGroupUse(testtools.StartMoto(t))
	n := &network{EC2: g.EC2}
	vpc := n.create(t, "CreateVpc", "vpcId", "CidrBlock=10.0.0.0/16")
	subnet := n.create(t, "CreateSubnet", "subnetId", "VpcId="+vpc, "CidrBlock=10.0.0.0/24")
	own := n.create(t, "CreateSecurityGroup", "groupId", "VpcId="+vpc, "GroupName=own", "GroupDescription=own")
	consul := n.create(t, "CreateSecurityGroup", "groupId", "VpcId="+vpc, "GroupName=consul-servers", "GroupDescription=consul")
	if err := g.remove(t, own, own); err != nil {
		t.Errorf("nobody uses the group: %v", err)
	}
	n.create(t, "AuthorizeSecurityGroupIngress", "", "GroupId="+consul, "IpPermissions.1.IpProtocol=tcp", "IpPermissions.1.FromPort=8501", "IpPermissions.1.ToPort=8501", "IpPermissions.1.Groups.1.GroupId="+own)
	if err := g.remove(t, own, own); err == nil || !strings.Contains(err.Error(), consul+" (consul-servers) has an inbound rule with it") {
		t.Errorf("with a rule of Consul's group: %v", err)
	}
	if err := g.remove(t, "failed", own); err != nil {
		t.Errorf("after a failed creation: %v", err)
	}
	n.create(t, "RevokeSecurityGroupIngress", "", "GroupId="+consul, "IpPermissions.1.IpProtocol=tcp", "IpPermissions.1.FromPort=8501", "IpPermissions.1.ToPort=8501", "IpPermissions.1.Groups.1.GroupId="+own)
	eni := n.create(t, "CreateNetworkInterface", "networkInterfaceId", "SubnetId="+subnet, "SecurityGroupId.1="+own, "Description=of a person")
	if err := g.remove(t, own, own); err == nil || !strings.Contains(err.Error(), eni+" (of a person) has it") {
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
		if err := newGroupUse(server.URL).remove(t, "sg-1", "sg-1"); err != nil {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
}
