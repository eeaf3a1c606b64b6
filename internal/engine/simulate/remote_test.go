package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// In histories from remoteSeeds on, HCP Terraform applies what tasks need: the real driver
// works with an HCP Terraform in memory (remote_system_test.go, remote_api_test.go). Runs
// there go on while no process of ours lives, and people confirm, discard, cancel, lock and
// queue runs there. In AWS, functions/reconcile carries out runs itself, without a container.
//
// The judge (remote_judge_test.go) checks that a workspace has one live run of ours, that
// what was read has one run, that only what was judged or confirmed by a person is applied,
// that success is what was applied, and that no run is left there in the end.

// remoteSeeds is the first seed of such histories. The kinds of history repeat in it.
const remoteSeeds = 6_000_000_000_000_000_000

// withRemote is the first of the bundles of such histories: they are the others once more.
const withRemote = 9

// registry is where modules are from: there are no files.
func registry(module, task string) string {
	name := path.Base(module)
	if module == "" {
		name = task
	}
	return "terrapulse/" + name + "/null"
}

// forRemote returns the bundles once more, for HCP Terraform.
func forRemote(local []bundle) []bundle {
	all := make([]bundle, len(local))
	for i, b := range local {
		cfg := *b.config
		cfg.Tasks = make([]config.Task, len(b.config.Tasks))
		for n, t := range b.config.Tasks {
			t.Module = registry(t.Module, t.Name)
			cfg.Tasks[n] = t
		}
		cfg.OtherDriver = &config.Cloud{Hostname: "https://app.terraform.io", Organization: "org", Token: "token", WorkspacePrefix: workspacePrefix, Tags: []string{config.CloudTag}}
		all[i] = bundle{digest: "c" + b.digest[1:], config: &cfg}
	}
	return all
}

// remotely returns definitions of tasks once more, with modules of a registry.
func remotely(definitions []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, len(definitions))
	for i, d := range definitions {
		for _, module := range []string{"./made", "./made-otherwise"} {
			d = bytes.ReplaceAll(d, []byte(`"`+module+`"`), []byte(`"`+registry(module, "")+`"`))
		}
		all[i] = d
	}
	return all
}

// rendered is what the module gets of the data: its digest stands for it.
func rendered(digest string) []consul.Block {
	return []consul.Block{{Variable: "services", Entries: condition.CatalogEntries{{Name: "data", Tags: []string{digest}}}}}
}

// far is how a process acts where HCP Terraform does the work.
type far struct {
	*process
	remotes.Driver
}

func (p *process) newFar() *far {
	if p.third {
		return &far{p, thirdDriver(p)}
	}
	return &far{p, hcp.New(hcp.Options{Connect: func(hcp.Connection) (hcp.API, error) { return wire{p}, nil }, Log: nothing, Now: p.now})}
}

// Plan implements driver.Driver.
func (f *far) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	return f.Driver.Plan(ctx, f.watched(ctx, job))
}

// Apply implements driver.Driver.
func (f *far) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return f.Driver.Apply(ctx, f.watched(ctx, job))
}

// Destroy implements driver.Driver.
func (f *far) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return f.Driver.Destroy(ctx, f.watched(ctx, job))
}

// carriesOut prepares a function to carry out runs in this invocation.
func (f *function) carriesOut(ctx context.Context) {
	if f.far == nil {
		f.far = f.newFar()
	}
	until, stop := context.WithDeadline(ctx, f.began.Add(invocationLimit-launchReserve))
	context.AfterFunc(ctx, stop)
	f.local = launch.NewLocal(until, parallel, nothing, func(ctx context.Context, l state.Launch, run state.PlannedRun) error {
		b := indexOf(l.Bundle)
		hand := &hand{process: f.process}
		r := &runner.Runner{Store: summary.Keep(view{process: f.process}), Source: new(overlay.Source), Logs: hand, Environ: environ.Shared, Verify: hand.verify, Owner: f.name, Claim: claim, Yields: true, Now: f.now, Log: nothing,
			Config: func() *config.Config { return bundles[b].config }, Consul: eyes{process: f.process, act: new(act)}, Driver: f.far}
		return r.Run(ofRun(ctx, run), l, run)
	})
}

// rest carries out what was launched until the invocation ends, and ticks after each run.
func (f *function) rest(ctx context.Context, a *act) {
	for f.local.Busy() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.local.Ended():
			f.tick(ctx, a, reconcile.TickOptions{Ended: true})
		}
	}
	f.local.Wait()
}

// silentEvery is how often the server of a history is silent about numbers, as some are that others
// wrote: what a guard or an approval depends on is then read from the plan, or is not known.
const silentEvery = 8

// drawRemote prepares HCP Terraform for a history.
func (w *world) drawRemote(seed uint64) {
	rate := func(rates ...int) int { return rates[w.rng.IntN(len(rates))] }
	t := &w.weather
	t.refused[hcpServer], t.lost[hcpServer], t.late[hcpServer] = rate(0, 20, 60), rate(0, 20, 100), rate(0, 10, 50)
	t.there = rate(0, 20, 60)
	w.cloud.uploads, w.cloud.blind = map[string]*upload{}, w.rng.IntN(4) == 0
	if w.cloud.silent = seed%silentEvery == 2 && !w.third; w.cloud.silent {
		w.cloud.blind = w.cloud.blind || seed%(2*silentEvery) == 2
	}
	if w.cloud.zero = seed%othersEvery == othersFirst && !w.third; w.cloud.zero {
		ws := w.cloud.add(w, workspacePrefix+services[0])
		ws.SourceName, ws.Version, ws.ours, ws.others = "Terrapulse", w.cloud.id("cv"), true, true
		w.tfstate(services[0]).holds = holding{module: "another", entries: map[string]string{"a": "", "b": "", "c": ""}}
		w.judge.infra[services[0]] = "of another instance"
	}
	for _, service := range services { // which a person has made for it
		if w.rng.IntN(6) == 0 && w.cloud.of(workspacePrefix+service) == nil {
			w.cloud.add(w, workspacePrefix+service)
		}
	}
}

// othersEvery is how often another instance with the same organization and prefix has made what a workspace
// manages, on a server that does not count resources and says 0. Tasks have rules then, so people approve.
const (
	othersEvery = 12
	othersFirst = 3
)

// stepThere lets something happen in HCP Terraform, and reports whether it did.
func (w *world) stepThere() bool {
	if w.chance(w.weather.there) {
		return w.somebodyThere()
	}
	return w.rng.IntN(100) < 20 && w.cloud.progress(w)
}

// namesThere are those of people in HCP Terraform.
var namesThere = []string{"ann", "bob", "cho"}

// somebodyThere has a person do something in HCP Terraform.
func (w *world) somebodyThere() bool {
	c, name := &w.cloud, namesThere[w.rng.IntN(len(namesThere))]
	if len(c.workspaces) == 0 {
		return false
	}
	ws := c.workspaces[w.rng.IntN(len(c.workspaces))]
	switch n := w.rng.IntN(20); {
	case n == 0:
		c.forbids = w.chance(300)
		c.forbade = c.forbade || c.forbids
		w.note("the token may work: %v", !c.forbids)
	case n < 3:
		if ws.lockedBy != "" {
			ws.lockedBy = ""
		} else if ws.current == nil {
			ws.lockedBy = name
		}
		w.note("workspace %s is locked by %q", ws.Name, ws.lockedBy)
	case n == 3:
		w.queueThere(ws, name)
	default:
		return w.decideThere(name)
	}
	return true
}

// queueThere has a person queue a run of their own: once more what was uploaded last.
func (w *world) queueThere(ws *workspace, by string) {
	c := &w.cloud
	for i := len(c.runs) - 1; i >= 0; i-- {
		if earlier := c.runs[i]; earlier.workspace == ws.ID && earlier.status == wasApplied && !ws.gone && !earlier.destroys {
			w.note("%s queues a run of %s", by, ws.Name)
			r := c.queue(w, ws, c.uploads[earlier.version])
			r.message = "once more"
			return
		}
	}
}

// decideThere has a person confirm, discard or cancel a run, or permit what a policy refuses.
func (w *world) decideThere(by string) bool {
	var live []*remoteRun
	for _, r := range w.cloud.runs {
		if !r.final() && w.cloud.workspace(r.workspace) != nil {
			live = append(live, r)
		}
	}
	if len(live) == 0 {
		return false
	}
	r := live[w.rng.IntN(len(live))]
	if n := slices.IndexFunc(live, (*remoteRun).confirmable); n >= 0 {
		r = live[n]
	}
	if n := slices.IndexFunc(live, func(r *remoteRun) bool { return r.confirmable() && w.judge.leftThere(r) }); n >= 0 {
		r = live[n]
	}
	actions := []hcp.Action{hcp.Confirm, hcp.Confirm, hcp.Discard, hcp.Cancel}
	a := actions[w.rng.IntN(len(actions))]
	if r.status == policyOverride && a == hcp.Confirm {
		w.note("%s permits what the policy refuses", by)
		r.status = policyChecked
		return true
	}
	if !w.cloud.may(r, a) || a == hcp.Confirm && !r.ours() { // who applies data of before is not noticed
		return false
	}
	w.cloud.act(w, r, a, by, "")
	return true
}

// agreeThere has people leave HCP Terraform in order, once the faults have ended.
func (w *world) agreeThere() {
	w.cloud.forbids = false
	for _, ws := range w.cloud.workspaces {
		ws.lockedBy = ""
	}
	for _, r := range w.cloud.runs {
		if r.status == policyOverride {
			r.status = policyChecked
		}
		if !r.ours() && w.cloud.may(r, hcp.Discard) {
			w.cloud.act(w, r, hcp.Discard, namesThere[0], "")
		}
	}
}
