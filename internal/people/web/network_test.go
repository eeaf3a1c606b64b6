package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// networkTasks are the tasks of a network team.
const networkTasks = `
guard { max_removed_percent = 50 }
approval = "destructive"

task {
  name        = "edge-firewall"
  description = "Lets the services reach the internet"
  module      = "./modules/firewall"
  condition "services" { names = ["api", "web"] }
  drift { enabled = true }
}
task {
  name        = "load-balancer"
  description = "Pools of the F5 in Frankfurt"
  module      = "./modules/pools"
  condition "services" { regexp = "^(api|web|shop)$" }
  after       = ["edge-*"]
}
task {
  name      = "dns-internal"
  module    = "./modules/dns"
  condition "catalog-services" { regexp = ".*" }
  after     = ["load-balancer", "vpn-routes"]
}
task {
  name      = "vpn-routes"
  module    = "./modules/routes"
  condition "consul-kv" {
    path    = "network/routes"
    recurse = true
  }
}
task {
  name      = "switch-acls"
  module    = "./modules/acls"
  condition "services" { names = ["printer"] }
  drift { enabled = true }
}
task {
  name      = "cdn-origins"
  module    = "./modules/cdn"
  condition "services" { names = ["shop"] }
}
task {
  name      = "nat-gateway"
  module    = "./modules/nat"
  condition "schedule" { cron = "0 4 * * *" }
}
task {
  name      = "monitoring"
  module    = "./modules/monitoring"
  condition "services" { names = ["node-exporter"] }
}
task {
  name      = "legacy-proxy"
  module    = "./modules/proxy"
  enabled   = false
  condition "services" { names = ["proxy"] }
}
task {
  name      = "tenant-blue"
  module    = "./modules/tenant"
  condition "services" { names = ["blue"] }
}
`

// network is a site whose tasks are in many phases.
type network struct {
	*site
	began time.Time
	// Runs that tests show: one that waits, one that runs, one that failed.
	waiting, running, failed string
	// whatIf is a what-if: two of its plans are there, one is being made, and one of its names is wrong.
	whatIf string
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	began := time.Now().UTC()
	n := &network{began: began, site: newSiteOf(t, networkTasks, func(o *api.Options) {
		o.Store = apispec.Store{Kind: "consul", Where: "consul:terrapulse/ in http://localhost:8500"}
		o.Cluster = members(began)
	})}
	if _, err := lease.Acquire(t.Context(), n.store, state.LeaderLease, "net-1.example", lease.Options{TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	n.put(state.ReconcileKey, state.Reconcile{LastSuccess: n.began, Refreshed: n.began, Sight: state.Sight{Gates: map[string]state.Gate{
		"dc1/services": {Mark: "1", Name: "services", Datacenter: "dc1", Index: 81342, Moved: n.ago(8 * time.Second)},
		"dc1/keys":     {Mark: "2", Name: "keys", Datacenter: "dc1", Index: 81290, Moved: n.ago(26 * time.Hour)},
		"dc2/services": {Name: "services", Datacenter: "dc2", Error: "no path to datacenter dc2"},
	}}})
	n.waits()
	n.runs()
	n.fails()
	n.rest()
	n.supposed()
	n.happened()
	return n
}

// members is a cluster of three instances, one of which is silent.
type members time.Time

func (m members) Status(context.Context) (apispec.ClusterStatus, error) {
	member := func(n int, since time.Duration, state apispec.MemberState) apispec.ClusterMember {
		began := time.Time(m)
		m := apispec.ClusterMember{ID: fmt.Sprintf("net-%d.example", n), Address: new(fmt.Sprintf("10.0.0.%d:8558", n)), ServiceName: "terrapulse",
			Leader: n == 1, Healthy: state != apispec.MemberStateSilent, State: &state, Version: new("1.2.3"), Terraform: new("terraform 1.11.4"),
			Since: new(began.Add(-since)), Seen: new(began.Add(-3 * time.Second))}
		if m.Healthy {
			m.Parallel, m.Room = new(4), new(n)
		}
		return m
	}
	return apispec.ClusterStatus{ClusterName: "network", Members: []apispec.ClusterMember{
		member(1, 30*time.Hour, apispec.MemberStateLeads), member(2, 29*time.Hour, apispec.MemberStateStandsBy), member(3, 50*time.Hour, apispec.MemberStateSilent)}}, nil
}

// happened writes the latest events.
func (n *network) happened() {
	n.t.Helper()
	var rec state.Reconcile
	events := outbox.NewEvents(
		outbox.NumberShared(&rec, outbox.Event{Kind: outbox.LeadershipTaken, At: n.ago(30 * time.Hour), By: "net-1.example", Fence: 1}),
		outbox.NumberShared(&rec, outbox.Event{Kind: outbox.HoldBegun, At: n.ago(2 * time.Hour), Task: "vpn-routes", By: "mia@example.com", Detail: "until the new tunnel is up"}),
		outbox.NumberShared(&rec, outbox.Event{Kind: outbox.RunWaiting, At: n.ago(4 * time.Minute), Task: "edge-firewall", Run: n.waiting, WaitFor: state.WaitApproval,
			Detail: "2 resources would be destroyed, and plans that destroy need an approval"}),
		outbox.NumberShared(&rec, outbox.Event{Kind: outbox.RunFailed, At: n.ago(3 * time.Minute), Task: "dns-internal", Run: n.failed, Error: "10.0.0.53:443: connection refused"}),
	)
	if _, err := n.store.Apply(n.t.Context(), events.Changes()...); err != nil {
		n.t.Fatal(err)
	}
}

// ago is a time before the site began.
func (n *network) ago(d time.Duration) time.Time { return n.began.Add(-d) }

// past is the record of a task after some runs, the latest of which ended a while ago.
func (n *network) past(name string, latest time.Duration, took ...float64) state.Task {
	n.t.Helper()
	var task state.Task
	for i, seconds := range took {
		at := n.ago(latest + time.Duration(len(took)-1-i)*7*time.Hour)
		task = n.end(task, state.Run{Task: name, State: state.RunSucceeded, Work: state.Work{Changes: &state.Changes{Add: i % 3, Change: 1, Destroy: i % 2}},
			Reason: state.Reason{Code: state.ReasonChanged, Text: fmt.Sprintf("service web: +web-%d (10.20.0.%d:8080)", i+3, i+13)}}, at, seconds)
	}
	task.Reason = state.Reason{Code: state.ReasonUnchanged, Text: "nothing has changed since the last apply"}
	return task
}

// end adds a run that ended at a time after so many seconds.
func (n *network) end(task state.Task, run state.Run, at time.Time, seconds float64) state.Task {
	n.t.Helper()
	run.ID, run.Kind, run.Digest = uuid.Must(uuid.NewV7()).String(), state.KindApply, "A"
	run.Ended = at
	run.Started = at.Add(-time.Duration(seconds * float64(time.Second)))
	run.Created, run.Seen = run.Started.Add(-400*time.Millisecond), run.Started.Add(-time.Second)
	run.Launched, run.Planned = run.Started.Add(-80*time.Millisecond), run.Started.Add(at.Sub(run.Started)*2/5)
	if run.State == state.RunSucceeded {
		n.made(&run)
	}
	n.put(state.RunKey(run.Task, run.ID), run)
	next, _ := task.Conclude(run, "D")
	return next
}

// made says which resources a task has after a run.
func (n *network) made(run *state.Run) {
	n.t.Helper()
	var addresses []string
	for i := range 3 {
		addresses = append(addresses, fmt.Sprintf("module.%s.example_entry.instance[%q]", run.Task, fmt.Sprintf("web-%d.node-%d.dc1", i+1, i+1)))
	}
	if strings.Contains(run.Task, "firewall") {
		addresses = append(addresses, "module."+run.Task+".panos_address_group.web")
	}
	made, text := state.NewMade(run.ID, addresses)
	made.Addresses.Name = run.ID + "-resources"
	if err := state.SaveLog(n.t.Context(), n.store, run.Task, made.Addresses.Name, []byte(text), time.Time{}); err != nil {
		n.t.Fatal(err)
	}
	run.Made = made
}

// begin gives a task a run that has not ended.
func (n *network) begin(task state.Task, run state.Run) state.Task {
	n.t.Helper()
	run.Kind = state.KindApply
	n.put(state.RunKey(run.Task, run.ID), run)
	task.Run = &state.LiveRun{ID: run.ID, Created: run.Created, Kind: run.Kind, Wait: run.Wait}
	return task
}

// print keeps what a run has printed.
func (n *network) print(run state.Run, lines ...string) {
	n.t.Helper()
	if err := state.SaveLog(n.t.Context(), n.store, run.Task, run.ID, []byte(strings.Join(lines, "\n")+"\n"), time.Time{}); err != nil {
		n.t.Fatal(err)
	}
}

// waits writes the task whose plan waits for an approval.
func (n *network) waits() {
	n.t.Helper()
	const name = "edge-firewall"
	entries := &state.EntryChanges{Added: 1, Removed: 2, Entries: []state.EntryChange{
		{Action: state.EntryRemoved, Name: "web-3.node-3.dc1", Group: "web", ID: "web-3", Address: "10.20.0.13:8080"},
		{Action: state.EntryRemoved, Name: "web-4.node-4.dc1", Group: "web", ID: "web-4", Address: "10.20.0.14:8080"},
		{Action: state.EntryAdded, Name: "api-5.node-2.dc1", Group: "api", ID: "api-5", Address: "10.20.1.15:9090"},
	}}
	rule := func(instance, address string, action driver.Action) driver.ResourceChange {
		r := driver.ResourceChange{Address: fmt.Sprintf("module.firewall.panos_address_object.instance[%q]", instance), Type: "panos_address_object", Action: action}
		values := driver.AttributeChange{Path: "value"}
		if action == driver.Create {
			values.After = address
		} else {
			values.Before = address
		}
		r.Attributes = []driver.AttributeChange{values}
		return r
	}
	resources := []driver.ResourceChange{
		rule("web-3.node-3.dc1", "10.20.0.13", driver.Delete), rule("web-4.node-4.dc1", "10.20.0.14", driver.Delete),
		{Address: "module.firewall.panos_address_group.web", Type: "panos_address_group", Action: driver.Update,
			Attributes: []driver.AttributeChange{{Path: "static_addresses[2]", Before: "web-3"}, {Path: "static_addresses[3]", Before: "web-4"}}},
		rule("api-5.node-2.dc1", "10.20.1.15", driver.Create),
	}
	wait := &state.Wait{For: state.WaitApproval, ID: uuid.NewString(), Since: n.ago(4 * time.Minute), Until: n.began.Add(24*time.Hour - 4*time.Minute),
		Causes:  []state.Cause{{Rule: state.RuleApproval, Text: "2 resources would be destroyed, and plans that destroy need an approval"}},
		Content: &state.Content{Definition: "D", Input: "B", Plan: "P", State: "S"}}
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, State: state.RunWaiting, Seen: n.ago(4*time.Minute + 12*time.Second),
		Created: n.ago(4*time.Minute + 11*time.Second), Times: state.Times{Started: n.ago(4*time.Minute + 10*time.Second)}, Waits: state.Waits{Wait: wait}, Work: state.Work{Entries: entries, Changes: driver.Count(resources)},
		Reason: state.Reason{Code: state.ReasonChanged, Text: "what the condition shows has changed: " + entries.String()}}
	run.Plan, run.PlanData = state.Kept{Name: run.ID + "-plan"}, state.Kept{Name: run.ID + "-plan-data"}
	data, err := json.Marshal(driver.Plan{Resources: resources, Digest: "P"}.WithCauses(entries.Entries))
	if err != nil {
		n.t.Fatal(err)
	}
	text := `Terraform will perform the following actions:

  # module.firewall.panos_address_object.instance["web-3.node-3.dc1"] will be destroyed
  # (because key ["web-3.node-3.dc1"] is not in for_each map)
  - resource "panos_address_object" "instance" {
      - name  = "web-3" -> null
      - value = "10.20.0.13" -> null
    }

Plan: 1 to add, 1 to change, 2 to destroy.`
	for kept, value := range map[string]string{run.Plan.Name: text, run.PlanData.Name: string(data)} {
		if err := state.SaveLog(n.t.Context(), n.store, name, kept, []byte(value), time.Time{}); err != nil {
			n.t.Fatal(err)
		}
	}
	n.print(run, "\x1b[1mpanos_address_group.web:\x1b[0m Refreshing state... [id=web]", "", text)
	task := n.begin(n.past(name, 5*time.Hour, 6.2, 7.1, 5.9, 9.4, 6.6, 31.2, 6.1, 7.7, 6.4, 6.9), run)
	task.Pending = &state.Pending{First: run.Seen, Latest: run.Seen, Entries: entries}
	task.Reason = run.Reason
	n.write(name, task)
	n.waiting = run.ID
}

// runs writes the task that is applied right now.
func (n *network) runs() {
	n.t.Helper()
	const name = "load-balancer"
	entries := &state.EntryChanges{Added: 1, Changed: 1, Entries: []state.EntryChange{
		{Action: state.EntryChanged, Name: "api-1.node-1.dc1", Group: "api", ID: "api-1", Address: "10.20.1.21:9090", Before: "10.20.1.11:9090", Attributes: []string{"address"}},
		{Action: state.EntryAdded, Name: "shop-2.node-6.dc1", Group: "shop", ID: "shop-2", Address: "10.20.2.12:443"},
	}}
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, State: state.RunRunning, Claimed: state.Claimed{Owner: "net-1.example", Expires: n.began.Add(time.Hour)}, Work: state.Work{Entries: entries},
		Seen: n.ago(9 * time.Second), Created: n.ago(8 * time.Second), Times: state.Times{Started: n.ago(7 * time.Second)},
		Reason: state.Reason{Code: state.ReasonChanged, Text: "what the condition shows has changed: " + entries.String()}}
	n.print(run, "\x1b[1mbigip_ltm_node.instance[\"api-1\"]: Modifying... [id=/Common/api-1]\x1b[0m", "\x1b[32m+ bigip_ltm_pool_attachment.instance[\"shop-2\"]\x1b[0m: Creating...")
	task := n.begin(n.past(name, 50*time.Minute, 11.9, 12.4, 10.8, 12.2, 13.1), run)
	task.Reason = run.Reason
	n.write(name, task)
	n.running = run.ID
}

// supposed writes a what-if.
func (n *network) supposed() {
	n.t.Helper()
	q := state.Question{ID: uuid.Must(uuid.NewV7()).String(), Supposed: "without node node-3, without node n7", By: "mia@example.com", Created: n.ago(time.Minute), Tasks: 9,
		NotConcerned: 6, Unmatched: []string{"no task reads node n7 or an instance on it"}}
	plan := func(task string, changes *state.Changes, verdict *state.Verdict) {
		run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: task, Kind: state.KindPlan, State: state.RunRunning, Created: q.Created,
			Times: state.Times{Started: q.Created}, Work: state.Work{Changes: changes}, WhatIf: &state.WhatIf{ID: q.ID, Supposed: q.Supposed, Verdict: verdict},
			Reason: state.Reason{Code: state.ReasonForced, Text: "what if, " + q.Supposed + ": plan requested by " + q.By}}
		if verdict != nil {
			run.State, run.Ended = state.RunSucceeded, n.ago(50*time.Second)
		}
		n.put(state.RunKey(task, run.ID), run)
		q.Runs = append(q.Runs, state.Answering{Task: task, Run: run.ID})
	}
	plan("cdn-origins", &state.Changes{Change: 1}, &state.Verdict{Outcome: state.WouldApply, Text: "would be applied: 0 to add, 1 to change, 0 to destroy"})
	plan("edge-firewall", &state.Changes{Add: 1, Destroy: 2, Resources: []state.Resource{{Address: "module.firewall.panos_address_object.api", Action: "create"},
		{Address: `module.firewall.panos_address_object.instance["web-3.node-3.dc1"]`, Action: "delete"}}},
		&state.Verdict{Outcome: state.WouldHold, Text: "would be held: 2 of 3 service instances are gone, and max_removed_percent is 50"})
	plan("load-balancer", nil, nil)
	n.put(state.QuestionKey(q.ID), q)
	n.whatIf = q.ID
}

// fails writes the task whose latest runs failed.
func (n *network) fails() {
	n.t.Helper()
	const name = "dns-internal"
	const text = "terraform apply: exit status 1: Error: updating record shop.internal.example: 10.0.0.53:443: connection refused"
	task := n.past(name, 9*time.Hour, 3.1, 3.3, 2.9)
	for i := range 3 {
		task = n.end(task, state.Run{Task: name, State: state.RunFailed, Work: state.Work{Error: text},
			Reason: state.Reason{Code: state.ReasonRetry, Text: fmt.Sprintf("attempt %d after a failed run", i+1), Attempt: i + 1}}, n.ago(time.Duration(9-3*i)*time.Minute), 2.1)
	}
	task.Reason = state.Reason{Code: state.ReasonBackoff, Text: "the last run failed, the next attempt is the 4th: " + text, Attempt: 4}
	task.Failing.RetryAt, task.Due = n.began.Add(90*time.Second), n.began.Add(90*time.Second)
	n.write(name, task)
	n.failed = task.Ended.Last.Run
	n.print(state.Run{Task: name, ID: n.failed}, "dns_a_record_set.service[\"shop\"]: Modifying...", "\x1b[31m╷\x1b[0m", "\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0m\x1b[1mupdating record shop.internal.example\x1b[0m",
		"\x1b[31m│\x1b[0m", "\x1b[31m│\x1b[0m   10.0.0.53:443: connection refused", "\x1b[31m╵\x1b[0m")
}

// rest writes the tasks on hold, drifted, applied and disabled.
func (n *network) rest() {
	n.t.Helper()
	held := n.past("vpn-routes", 26*time.Hour, 4.4, 4.1, 4.9, 4.2)
	held.OnHold = &state.OnHold{By: "mia@example.com", At: n.ago(2 * time.Hour), Comment: "until the new tunnel is up"}
	held.Reason = state.Reason{Code: state.ReasonOnHold, Text: "mia@example.com has put the task on hold: until the new tunnel is up"}
	n.write("vpn-routes", held)

	drifted := n.past("switch-acls", 3*24*time.Hour, 8.8, 9.1, 8.7)
	drifted.Drift = &state.Drift{After: n.ago(time.Hour), Checked: n.ago(time.Hour), Found: &state.Drifted{Since: n.ago(time.Hour), Run: uuid.NewString(), Digest: "X", Count: 1,
		Resources: []state.DriftedResource{{Address: "module.acls.junos_firewall_filter.printers", Action: "update", Attributes: []string{"term[0].then"}}}, Changes: state.Changes{Change: 1}}}
	n.write("switch-acls", drifted)

	n.write("cdn-origins", n.past("cdn-origins", 35*time.Minute, 15.2, 14.1, 16.8, 15.5, 14.9, 15.1, 15.8))
	scheduled := n.past("nat-gateway", 6*time.Hour, 2.2, 2.3, 2.1, 2.2)
	scheduled.Due = n.began.Add(18 * time.Hour)
	n.write("nat-gateway", scheduled)
	n.write("monitoring", n.past("monitoring", 12*time.Minute, 1.3, 1.2, 1.4, 1.2, 1.3, 1.2, 1.3, 1.4))
	disabled := n.past("legacy-proxy", 90*24*time.Hour, 3.3)
	disabled.Reason = state.Reason{Code: state.ReasonDisabled, Text: "the task is disabled"}
	n.write("legacy-proxy", disabled)
}
