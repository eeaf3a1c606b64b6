//go:build linux

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestWhatIf_ContainersPlanAndNothingIsApplied(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{parameters: rehearsal.Parameters{"ActArns": ann.arn}})
	address := c.serveURL(ann)
	c.instances(1, 20, true)
	c.module("")
	c.tasks(c.s3Backend(), "lb")
	c.file("other/main.tf", `variable "services" {}`)
	c.addConfig(`task {
  name   = "other"
  module = "./other"
  condition "services" { names = ["other"] }
}
`)
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.applied("lb") == 20 && len(c.runs("other")) == 1 })
	c.untilIdle()

	out, err := c.terrapulse("invoke", "-stack=e2e", "-inspect", "-without", "service=web", "-wait")
	for _, words := range []string{"### Task lb", "would be held: 20 of 20 service instances are gone", "What if, without service web: 2 tasks: 1 would be held, 1 not concerned"} {
		if err != nil || !strings.Contains(out, words) {
			t.Errorf("want %q: %v\n%s", words, err, out)
		}
	}
	out, err = c.terrapulse("invoke", "-stack=e2e", "-inspect", "-without", "node=n7", "-wait")
	if err == nil || !strings.Contains(out, "Warning: no task reads anything that would differ") || !strings.Contains(out, "2 not concerned") {
		t.Errorf("a node that is not there: %v\n%s", err, out)
	}

	status, header, said := c.ask(http.MethodPost, "/v1/what-if", `{"without": [{"instance": "web-03"}], "tasks": ["lb"]}`)
	if status != http.StatusAccepted || header["Location"] == "" {
		t.Fatalf("POST /v1/what-if: %d %v %s", status, header, said)
	}
	var answer apispec.WhatIfResponse
	c.until("the plan is there", func() bool { c.get(header["Location"], &answer); return answer.WhatIf.Ended })
	if r := answer.WhatIf.Results; len(r) != 1 || r[0].Verdict == nil || r[0].Verdict.Outcome != apispec.WouldBeApplied || !strings.Contains(apispec.Deref(answer.WhatIf.By), ann.arn) {
		t.Errorf("without one instance: %+v", answer.WhatIf)
	}

	u := c.startUI(address.env, ann.environ())
	if status, page := u.get("/ui/tasks/lb"); status != http.StatusOK || !strings.Contains(page, "What if this goes?") {
		t.Errorf("the page has no form: %d %s", status, page)
	}
	at, _ := u.root.Parse("/ui/what-if")
	res, err := u.client.PostForm(at.String(), url.Values{"gone": {"instance"}, "name": {"web-1*"}, "task": {"lb"}})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !strings.Contains(string(page), "What if, without instance web-1*") {
		t.Fatalf("the page of the what-if: %d %s", res.StatusCode, page)
	}
	c.until("the page shows the verdict", func() bool {
		var shown struct{ Summary string }
		_, text := u.get(res.Request.URL.Path + ".json")
		return json.Unmarshal([]byte(text), &shown) == nil && shown.Summary == "1 task: 1 would be applied"
	})
	if c.applied("lb") != 20 {
		t.Errorf("%d instances are applied", c.applied("lb"))
	}
	if answer := c.tick(); !answer.Idle {
		t.Errorf("what-ifs have left something to do: %+v", answer)
	}

	// No tick has seen yet that Consul was replaced. web-01 does not come back: otherwise the first tick would accept
	// the new Consul.
	c.consul.Restart() // empty
	c.instances(2, 20, true)
	out, err = c.terrapulse("invoke", "-stack=e2e", "-inspect", "-without", "instance=web-03", "-wait")
	for _, words := range []string{"would be held: 2 of 20 service instances are gone", ", and Consul was replaced since they were applied: it"} {
		if err != nil || !strings.Contains(out, words) {
			t.Errorf("want %q: %v\n%s", words, err, out)
		}
	}
	if c.applied("lb") != 20 {
		t.Errorf("%d instances are applied", c.applied("lb"))
	}
	if had := c.rolesHad(); had != "RunnerRole PlanRole" {
		t.Errorf("the containers of applies and what-ifs have the roles %s", had)
	}
}
