package hcptest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

// quick returns a client of a stand-in without Terraform, with the workspace web.
func quick(t *testing.T) (*client, string) {
	t.Parallel()
	c := newClient(t, hcptest.WithoutTerraform())
	return c, c.workspace("web", nil)
}

// start creates a run of a new upload.
func (c *client) start(ws, value string, attributes object) string {
	c.t.Helper()
	return c.run(ws, c.upload(ws, nil, files(value)), attributes)
}

// shown returns an attribute of a run as the API shows it.
func (c *client) shown(run, attribute string) any {
	c.t.Helper()
	return at(c.must(200, "GET", "runs/"+run, nil), "data.attributes."+attribute)
}

func (c *client) statuses(workspace string) (all []string) {
	for _, r := range c.Workspace(workspace).Runs {
		all = append(all, r.Status)
	}
	return all
}

func TestRun_WaitsForTheEarlierRun(t *testing.T) {
	c, ws := quick(t)
	first, second, aside := c.start(ws, "one", nil), c.start(ws, "two", nil), c.start(ws, "three", object{"plan-only": true})
	c.Await(first, "planned")
	c.Await(aside, "planned_and_finished")
	if got := c.statuses("web"); !slices.Equal(got, []string{"planned", "pending", "planned_and_finished"}) {
		t.Errorf("the runs are %q", got)
	}
	if n := c.shown(second, "position-in-queue"); n != 1.0 {
		t.Errorf("the second run has the position %v", n)
	}
	c.must(409, "POST", "runs/"+second+"/actions/apply", nil)
	c.must(409, "POST", "workspaces/"+ws+"/actions/lock", nil)
	c.must(202, "POST", "runs/"+first+"/actions/discard", object{"comment": "the input changed"})
	if got := c.Await(first, "discarded"); !slices.Equal(got.Comments, []string{"the input changed"}) {
		t.Errorf("comments: %q", got.Comments)
	}
	c.Await(second, "planned")
	c.must(202, "POST", "runs/"+second+"/actions/apply", nil)
	c.Await(second, "applied")
	c.must(409, "POST", "runs/"+second+"/actions/discard", nil)
	c.must(409, "POST", "runs/"+second+"/actions/cancel", nil)
}

func TestRun_WaitsForTheLock(t *testing.T) {
	c, ws := quick(t)
	c.Lock("web", "jane")
	run := c.start(ws, "one", nil)
	doc := c.must(200, "GET", "runs/"+run+"?include=workspace", nil)
	if by := at(doc, "included.relationships.locked-by.data.id"); c.Run(run).Status != "pending" || by != "user-jane" {
		t.Errorf("the run is %s, and the workspace is locked by %v", c.Run(run).Status, by)
	}
	c.Await(c.start(ws, "two", object{"plan-only": true}), "planned_and_finished")
	c.Unlock("web")
	c.Await(run, "planned")
}

func TestRun_IsDecidedOnByPeople(t *testing.T) {
	c, ws := quick(t)
	run := c.start(ws, "one", nil)
	c.Await(run, "planned")
	c.Confirm(run, "jane")
	if got := c.Await(run, "applied"); got.Decider != "jane" {
		t.Errorf("decided by %q", got.Decider)
	}
	doc := c.must(200, "GET", "runs/"+run+"?include=confirmed_by", nil)
	if name := at(doc, "included.attributes.username"); name != "jane" {
		t.Errorf("confirmed by %v", name)
	}
	run = c.start(ws, "two", nil)
	c.Await(run, "planned")
	c.Discard(run, "joe", "not today")
	c.Await(run, "discarded")
	events := c.must(200, "GET", "runs/"+run+"/run-events?include=actor", nil)["data"].([]any)
	if last := events[len(events)-1]; at(last, "attributes.action") != "discarded" || at(last, "relationships.actor.data.id") != "user-joe" {
		t.Errorf("the last event is %v", last)
	}
}

func TestRun_StaysWhereATestHoldsIt(t *testing.T) {
	c, ws := quick(t)
	for _, status := range []string{"pending", "plan_queued", "planning", "planned", "confirmed", "apply_queued", "applying"} {
		hold := c.Hold(status)
		run := c.start(ws, status, object{"auto-apply": true})
		c.Await(run, status)
		if c.Run(run).Confirmable {
			t.Errorf("in status %s it is confirmable", status)
		}
		if status == "planning" {
			c.Cancel(run, "jane")
			c.Await(run, "canceled")
		}
		hold.Release()
		c.Await(run, "applied", "canceled")
	}
}

func TestRun_PassesItsChecks(t *testing.T) {
	for _, test := range []struct {
		name   string
		checks hcptest.Checks
		rests  []string // where a person decides
		ends   string
	}{
		{"cost", hcptest.Checks{Cost: true}, []string{"cost_estimated"}, "applied"},
		{"policy", hcptest.Checks{Cost: true, Policy: "passed"}, []string{"policy_checked"}, "applied"},
		{"soft policy", hcptest.Checks{Policy: "soft_failed"}, []string{"policy_override", "policy_checked"}, "applied"},
		{"hard policy", hcptest.Checks{Policy: "hard_failed"}, nil, "errored"},
		{"task", hcptest.Checks{PrePlan: "passed", PostPlan: "passed", PreApply: "passed", PostApply: "passed"}, []string{"post_plan_completed"}, "applied"},
		{"failed task", hcptest.Checks{PostPlan: "failed"}, nil, "errored"},
		{"task with a decision", hcptest.Checks{PostPlan: "awaiting_decision"}, []string{"post_plan_awaiting_decision", "post_plan_completed"}, "applied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, ws := quick(t)
			c.Check(test.checks)
			run := c.start(ws, "one", nil)
			for i, status := range test.rests {
				got := c.Await(run, status, "errored")
				last := i == len(test.rests)-1
				if got.Status != status || got.Confirmable != last {
					t.Fatalf("it rests as %+v, want %s", got, status)
				}
				if last {
					c.Confirm(run, "jane")
				} else {
					c.must(409, "POST", "runs/"+run+"/actions/apply", nil)
					c.Override(run, "jane")
				}
			}
			c.Await(run, test.ends)
		})
	}
}

func TestRun_ShowsAnUnknownStatus(t *testing.T) {
	c, ws := quick(t)
	run := c.start(ws, "one", nil)
	c.Await(run, "planned")
	c.Show(run, "thinking_about_it")
	if got := c.shown(run, "status"); got != "thinking_about_it" {
		t.Errorf("status %v", got)
	}
	c.Show(run, "")
	c.Confirm(run, "jane")
	c.Await(run, "applied")
}

func TestRun_ActionHasItsEffectLater(t *testing.T) {
	c, ws := quick(t)
	hold := c.HoldAction("apply")
	run := c.start(ws, "one", nil)
	c.Await(run, "planned")
	c.must(202, "POST", "runs/"+run+"/actions/apply", nil)
	if got := c.Run(run); got.Status != "planned" || !got.Confirmable {
		t.Errorf("after the request: %+v", got)
	}
	hold.Release()
	c.Await(run, "applied")
}

func TestRun_IsQueuedByTheUpload(t *testing.T) {
	c, ws := quick(t)
	c.upload(ws, object{"speculative": true}, files("one"))
	run := c.AwaitRun("web", 1)
	if run.PlanOnly == false {
		t.Errorf("a run of a speculative configuration version: %+v", run)
	}
	c.Await(run.ID, "planned_and_finished")
	if got := c.Workspace("web").Current; got != "" {
		t.Errorf("the current configuration version is %q", got)
	}
}

func TestRun_UnfinishedUploadIsRefused(t *testing.T) {
	c, ws := quick(t)
	version := id(c.must(201, "POST", "workspaces/"+ws+"/configuration-versions", data("configuration-versions", object{"auto-queue-runs": false})))
	c.must(422, "POST", "runs", data("runs", nil, "workspace", "workspaces", ws, "configuration-version", "configuration-versions", version))
}

func TestRuns_ListHasFilters(t *testing.T) {
	c, ws := quick(t)
	other := c.workspace("db", nil)
	waiting, done, speculative := c.start(ws, "one", object{"message": "from run 42"}), c.start(other, "one", object{"auto-apply": true}), c.start(other, "two", object{"plan-only": true})
	c.Await(waiting, "planned")
	c.Await(done, "applied")
	c.Await(speculative, "planned_and_finished")
	for query, want := range map[string][]string{
		"": {done, waiting}, // without those that are plan-only
		"filter[operation]=plan_only,plan_and_apply": {speculative, done, waiting},
		"filter[status_group]=non_final":             {waiting},
		"filter[status_group]=discardable":           {waiting},
		"filter[status_group]=final":                 {done},
		"filter[workspace_names]=web,nothing":        {waiting},
		"search[basic]=run 42":                       {waiting},
		"filter[status]=applied":                     {done},
		"page[size]=1&page[number]=2":                {waiting},
	} {
		doc := c.must(200, "GET", "organizations/acme/runs?"+strings.ReplaceAll(query, " ", "%20"), nil)
		got := []string{}
		for _, r := range doc["data"].([]any) {
			got = append(got, fmt.Sprint(at(r, "id")))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
		if at(doc, "meta.pagination.total-count") != nil {
			t.Errorf("%s: the list says how long it is", query)
		}
	}
}

func TestUpload_IsReadLater(t *testing.T) {
	c, ws := quick(t)
	hold := c.HoldAction("upload")
	version := c.upload(ws, nil, files("one"))
	read := func() any {
		return at(c.must(200, "GET", "configuration-versions/"+version, nil), "data.attributes.status")
	}
	if got := read(); got != "pending" {
		t.Errorf("at first it is %v", got)
	}
	c.must(422, "POST", "runs", data("runs", nil, "workspace", "workspaces", ws, "configuration-version", "configuration-versions", version))
	hold.Release()
	for read() != "uploaded" {
	}
	c.Await(c.run(ws, version, nil), "planned")
}

func TestStart_RunOfAPersonIsFirst(t *testing.T) {
	c, ws := quick(t)
	c.Upload("web")
	theirs := c.Start("web", "jane")
	ours := c.start(ws, "one", nil)
	c.Await(theirs, "planned")
	if got := c.Run(ours).Status; got != "pending" {
		t.Errorf("our run is %s", got)
	}
	c.Discard(theirs, "jane", "")
	c.Await(ours, "planned")
}
