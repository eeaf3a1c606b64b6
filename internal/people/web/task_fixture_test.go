package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// waits lets a task wait for the approval of a plan for the load balancers of a network:
// resources in all groups, each with what a reader of such plans has to read.
func (s *site) waits(name string, plan driver.Plan, text string) state.Task {
	s.t.Helper()
	now := time.Now().UTC()
	entries := &state.EntryChanges{}
	entries.Count(state.EntryRemoved, []string{"web-3.node-3.dc1", "web-7.node-7.dc1", "web-9.node-9.dc1"}, func(name string) state.EntryChange {
		id, _, _ := strings.Cut(name, ".")
		return state.EntryChange{Group: "web", ID: id, Address: "10.0.0." + strings.TrimPrefix(id, "web-") + ":8080"}
	})
	entries.Count(state.EntryChanged, []string{"web-1.node-1.dc1"}, func(string) state.EntryChange {
		return state.EntryChange{Group: "web", ID: "web-1", Address: "10.0.0.21:8080", Before: "10.0.0.1:8080", Attributes: []string{"address"}}
	})
	entries.Count(state.EntryAdded, []string{"web-12.node-2.dc1"}, func(string) state.EntryChange {
		return state.EntryChange{Group: "web", ID: "web-12", Address: "10.0.0.12:8080"}
	})
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunWaiting, Work: state.Work{Digest: "B", Entries: entries},
		Created: now.Add(-12 * time.Minute), Times: state.Times{Started: now.Add(-12 * time.Minute)}, Seen: now.Add(-13 * time.Minute),
		Reason: state.Reason{Code: state.ReasonChanged, Text: "the condition changed: " + entries.String()}}
	run.Changes = &state.Changes{}
	for _, r := range plan.Resources {
		switch r.Action {
		case driver.Delete:
			run.Changes.Destroy++
		case driver.Replace:
			run.Changes.Destroy++
			run.Changes.Add++
		case driver.Update:
			run.Changes.Change++
		case driver.Create:
			run.Changes.Add++
		}
	}
	raw, err := json.Marshal(plan.WithCauses(entries.Entries))
	if err != nil {
		s.t.Fatal(err)
	}
	id := uuid.NewString()[:8]
	run.Plan, run.PlanData = state.Kept{Name: run.ID + "-plan-" + id}, state.Kept{Name: run.ID + "-data-" + id}
	for kept, content := range map[state.Kept][]byte{run.Plan: []byte(text), run.PlanData: raw} {
		if err := state.SaveLog(s.t.Context(), s.store, name, kept.Name, content, now.Add(time.Hour)); err != nil {
			s.t.Fatal(err)
		}
	}
	run.Wait = &state.Wait{For: state.WaitApproval, ID: id, Since: now.Add(-12 * time.Minute), Until: now.Add(8 * time.Hour),
		Causes:  []state.Cause{{Rule: state.RulePlanGuard, Text: "11 of 64 resources would be destroyed or replaced, and max_destroy is 5"}, {Rule: state.RuleApproval, Text: "plans that destroy need an approval"}},
		Content: &state.Content{Definition: "d", Input: "B", Plan: "p" + id}}
	s.put(state.RunKey(name, run.ID), run)
	task := s.history(name)
	task.Pending = &state.Pending{First: now.Add(-13 * time.Minute), Latest: now.Add(-12 * time.Minute), Entries: entries}
	task.Run = &state.LiveRun{ID: run.ID, Created: run.Created}
	return task.BeginWait(run)
}

// history is a task with runs of some days.
func (s *site) history(name string) state.Task {
	s.t.Helper()
	now := time.Now().UTC()
	task := state.Task{}
	for i := range 32 {
		ended := now.Add(time.Duration(i-32) * 97 * time.Minute)
		took := time.Duration(4000+i*i*977%9000) * time.Millisecond
		run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Digest: "A", Changes: &state.Changes{Add: i % 3, Change: i % 7, Destroy: i % 2}},
			Created: ended.Add(-took - time.Second), Times: state.Times{Started: ended.Add(-took), Ended: ended}, Seen: ended.Add(-took - 6*time.Second - time.Duration(i%5)*time.Second),
			Reason: state.Reason{Code: state.ReasonChanged, Text: fmt.Sprintf("the condition changed: web: +web-%d (10.0.0.%d:8080)", i, i)}}
		switch {
		case i == 11 || i == 12 || i == 27:
			run.State, run.Error = state.RunFailed, "apply: exit status 1: Error: creating F5 pool member: dial tcp 10.20.0.1:443: connect: no route to host"
			run.Changes = nil
		case i%8 == 3:
			run.Reason = state.Reason{Code: state.ReasonForced, Text: "a run was requested by ada@ops-3"}
			run.Seen = time.Time{}
		}
		s.put(state.RunKey(name, run.ID), run)
		task, _ = task.Conclude(run, "definition")
	}
	return task
}

// poolPlan is a plan of 40 resources in all groups, and Terraform's words for it.
func poolPlan() (driver.Plan, string) {
	var plan driver.Plan
	var text strings.Builder
	text.WriteString("Terraform used the selected providers to generate the following execution\nplan. Resource actions are indicated with the following symbols:\n  + create\n  ~ update in-place\n  - destroy\n-/+ destroy and then create replacement\n\nTerraform will perform the following actions:\n")
	add := func(r driver.ResourceChange, words, sign string) {
		plan.Resources = append(plan.Resources, r)
		kind, name, _ := strings.Cut(r.Address, ".")
		fmt.Fprintf(&text, "\n  # %s %s\n%s resource %q %q {\n", r.Address, words, sign, kind, name)
		for _, a := range r.Attributes {
			fmt.Fprintf(&text, "      %s %-12s = %v -> %v\n", strings.TrimSpace(sign)[:1], a.Path, a.Before, a.After)
		}
		text.WriteString("    }\n")
	}
	for _, n := range []int{3, 7, 9} {
		for _, pool := range []string{"http", "https"} {
			add(driver.ResourceChange{Address: fmt.Sprintf(`module.load-balancer.f5_pool_member.%s["web-%d.node-%d.dc1"]`, pool, n, n), Type: "f5_pool_member", Action: driver.Delete,
				Reason: "delete_because_each_key", Attributes: []driver.AttributeChange{{Path: "address", Before: fmt.Sprintf("10.0.0.%d", n)}, {Path: "port", Before: 8080}, {Path: "monitor", Before: "/Common/http"}}},
				"will be destroyed", "  -")
		}
	}
	for _, pool := range []string{"http", "https", "admin", "metrics", "grpc"} {
		add(driver.ResourceChange{Address: fmt.Sprintf(`module.load-balancer.f5_pool_member.%s["web-1.node-1.dc1"]`, pool), Type: "f5_pool_member", Action: driver.Replace,
			Reason: "replace_because_cannot_update", Attributes: []driver.AttributeChange{{Path: "address", Before: "10.0.0.1", After: "10.0.0.21", Replaces: true}, {Path: "id", Before: "/Common/web-1", Unknown: true}, {Path: "password", Sensitive: true}}},
			"must be replaced", "-/+")
	}
	for i := range 24 {
		add(driver.ResourceChange{Address: fmt.Sprintf("module.load-balancer.f5_virtual_server.vip[%d]", i), Type: "f5_virtual_server", Action: driver.Update,
			Attributes: []driver.AttributeChange{{Path: "description", Before: "12 members of web in dc1, managed", After: "10 members of web in dc1, managed"}, {Path: `tags["revision"]`, Before: "417", After: "418"}}},
			"will be updated in-place", "  ~")
	}
	for _, pool := range []string{"http", "https", "admin", "metrics"} {
		add(driver.ResourceChange{Address: fmt.Sprintf(`module.load-balancer.f5_pool_member.%s["web-12.node-2.dc1"]`, pool), Type: "f5_pool_member", Action: driver.Create,
			Attributes: []driver.AttributeChange{{Path: "address", After: "10.0.0.12"}, {Path: "port", After: 8080}, {Path: "id", Unknown: true}}}, "will be created", "  +")
	}
	add(driver.ResourceChange{Address: "module.load-balancer.data.f5_device.this", Type: "f5_device", Action: "read"}, "will be read during apply", " <=")
	text.WriteString("\nPlan: 9 to add, 24 to change, 11 to destroy.\n")
	return plan, text.String()
}
