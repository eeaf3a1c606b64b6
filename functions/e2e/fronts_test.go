//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// Wherever the API is, AWS says who sends a request, and the grants of the bundle decide.
func TestAPI_GrantsAndApprovalsHoldAtEachAddress(t *testing.T) {
	t.Parallel()
	for where, parameters := range map[string]rehearsal.Parameters{
		"lambda-url":              {"Api": "url"},
		"execute-api":             {"Api": "gateway"},
		"-vpce-0a1b2.execute-api": {"Api": "vpce-0a1b2,vpce-0c3d4"},
	} {
		t.Run(parameters["Api"], func(t *testing.T) {
			c := deploy(t, options{parameters: parameters})
			address := c.serveURL(ann, bob, eve)
			c.register("web-1", 8080)
			c.module("")
			c.tasks(c.s3Backend(), "lb")
			c.addConfig(fmt.Sprintf(`approval {
  mode = "always"
}
api {
  access {
    grant {
      roles = ["operate", "approve"]
      to    = [%q]
      tasks = ["lb"]
    }
    grant {
      roles = ["view"]
      to    = [%q]
    }
  }
}
`, ann.arn, bob.arn))
			c.mustPush()
			c.tickUntil("the plan waits", func() bool { return c.waits("lb") != nil })
			plan := c.waits("lb").ID
			as := func(by caller, args ...string) (string, error) {
				before := maps.Clone(c.env)
				defer func() { c.env = before }()
				c.env = maps.Clone(c.env)
				maps.Copy(c.env, address.env)
				maps.Copy(c.env, by.environ())
				return c.terrapulse(append(args, "-stack=e2e")...)
			}
			for _, tt := range []struct {
				by     caller
				args   []string
				refuse string // what the answer says; empty if the command succeeds
			}{
				{eve, []string{"status"}, eve.arn + " needs the role view"},
				{eve, []string{"approve", "-plan=" + plan, "lb"}, eve.arn + " needs the role view"},
				{bob, []string{"status"}, ""},
				{bob, []string{"hold", "lb"}, bob.arn + " may view, but needs the role operate"},
				{bob, []string{"approve", "-plan=" + plan, "lb"}, bob.arn + " may view, but needs the role approve"},
				{ann, []string{"pause"}, ann.arn + " may view"},
				{ann, []string{"hold", "lb"}, ""},
				{ann, []string{"release", "lb"}, ""},
				{ann, []string{"approve", "-plan=" + plan, "lb"}, ""},
			} {
				out, err := as(tt.by, tt.args...)
				if tt.refuse == "" && err != nil || tt.refuse != "" && (err == nil || !strings.Contains(strings.Join(strings.Fields(out), " "), tt.refuse)) {
					t.Errorf("%s: %s: %v\n%s", tt.by.arn, tt.args, err, out)
				}
			}
			request := httptest.NewRequest(http.MethodPost, "/v1/tasks/lb/approval", nil)
			if status, _, said, err := c.handOn(request, fmt.Appendf(nil, `{"decision":"approve","plan":%q}`, plan), eve); err != nil || status != http.StatusForbidden || !strings.Contains(string(said), "needs the role approve") {
				t.Errorf("an identity without a role approves: %d %s, %v", status, said, err)
			}
			c.tickUntil("it is applied", func() bool { return c.out("lb") == "web-1:8080" && len(c.runs("lb")) > 0 })
			runs := c.runs("lb")
			if a := runs[len(runs)-1].Approval; a == nil || a.By != ann.arn || !a.Authenticated {
				t.Errorf("approved by %+v", a)
			}
			stranger := eve
			stranger.AccessKeyID = "AKIANOBODY"
			if out, err := as(stranger, "status"); err == nil || !strings.Contains(out, "sign in to AWS again") {
				t.Errorf("a stranger: %v\n%s", err, out)
			}
			if url := c.apiURL; !strings.Contains(url, where+".eu-west-1.") {
				t.Errorf("the address is %s", url)
			}
		})
	}
}
