//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The tests of this file take longest. Go begins with the parallel tests of the last file, so nothing
// waits for them in the end.

// The commands of docs/deploy.md are run literally, in an empty account. Only what no program here
// can stand in for is left out.
func TestDeploy_GuideIsFollowedLiterally(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "")
	a.taskFiles()
	a.register("web-1", 8080)
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range shellBlock.FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	// The first block is a whole deployment. Until `terrapulse resume`, nothing is applied.
	first := strings.Replace(blocks[0], "\nterrapulse resume", "\ntest ! -e "+a.out("web")+"\nterrapulse resume", 1)
	if first == blocks[0] {
		t.Fatalf("the first block does not resume:\n%s", first)
	}
	a.follow(first, a.dir, "### Task web", "1 to add", "paused")
	a.until("the task is applied", func() bool { return a.made("web") == "web-1:8080" })
	a.register("web-2", 8081)
	a.until("a change is applied", func() bool { return a.made("web") == "web-1:8080 web-2:8081" })

	clone := filepath.Join(a.dir, "terrapulse")
	a.env["PATH"] = filepath.Join(clone, "bin") + ":" + a.env["PATH"]
	a.follow("aws s3api create-bucket --bucket the-bucket --create-bucket-configuration LocationConstraint=eu-west-1", clone)
	named := strings.NewReplacer("BUCKET", "the-bucket", "vpc-1", a.first("vpcs", "VpcId"), "rtb-1", a.first("route-tables", "RouteTableId"),
		"sg-1", a.first("security-groups", "GroupId"), "SubnetIds=subnet-1,subnet-2", "SubnetIds="+a.first("subnets", "SubnetId"))
	for _, block := range blocks[1:] {
		switch {
		case strings.Contains(block, "EgressOnlyGateway"):
			// Moto assigns other addresses. TestNetwork_IsAGatewayOrEndpoints looks at what is made.
		case strings.Contains(block, "podman"):
			// A registry is needed. TestTheImageAppliesAChange builds the image and runs it.
		case strings.Contains(block, "terrapulse doctor"):
			a.follow(block, clone, "container", "planned task web", "### Task web", "web   applied")
		default:
			a.follow(named.Replace(block), clone)
		}
	}
	secrets := fmt.Sprint(a.secrets)
	if !strings.Contains(secrets, `secret:terrapulse-AbCdEf:{"consul_token": "TOKEN"}`) {
		t.Errorf("the secrets are %s", secrets)
	}
}

// The script for a real account finds no difference in an account of stand-ins. These have no
// metrics.
func TestVerify_FindsNoDifferenceInARehearsedAccount(t *testing.T) {
	t.Parallel()
	rehearse(t, options{}) // packages what is built
	a := newAccount(t, prebuilt(t))
	slow := "0; until test -e " + a.stopped() + "; do sleep 0.1; done" // the run that is killed takes until then
	out, err := a.run("make build && infra/verify-aws", a.clone("verify"), "FROM="+a.clone("earlier"), "CONSUL=consul.example.com:8501", "SUBNETS=subnet-1,subnet-2",
		"CONSUL_HTTP_ADDR=http://"+a.consul.Addr(), "EVERY=1", "SLOW="+slow, "PATIENCE=300", "WITHOUT=metrics")
	t.Logf("%s", out) // with the seconds that each check took
	if err != nil || !strings.Contains(out, "What differs: nothing") {
		t.Error(err)
	}
}
