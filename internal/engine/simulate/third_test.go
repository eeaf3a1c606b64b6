package simulate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/drivertest"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories from thirdSeeds on, the driver of package drivertest applies what tasks need. Its system
// is the one of the histories with HCP Terraform, with fewer requests: so the same judge checks
// that the engine treats all drivers alike whose runs go on in another system.
const thirdSeeds = 2 * remoteSeeds

// withThird is the first of the bundles of such histories.
var withThird = withOrder - withRemote

// forThird returns the bundles once more, for the third driver.
func forThird(local []bundle) []bundle {
	all := forRemote(local)
	for i := range all {
		all[i].digest, all[i].config.OtherDriver = "t"+all[i].digest[1:], &drivertest.Block{Office: "office"}
	}
	return all
}

func thirdDriver(p *process) *drivertest.Driver {
	return &drivertest.Driver{Open: func(context.Context, *config.Config) (drivertest.System, error) { return office{wire{p}}, nil }}
}

// expires is how long a request to begin a run is valid, as a signed request is. Otherwise, one that
// comes late could begin a run of a task whose records were removed.
const expires = 5 * time.Minute

// office is the system as a process reaches it.
type office struct{ wire }

// Latest implements drivertest.System.
func (o office) Latest(ctx context.Context, file string) (drivertest.Run, error) {
	return call(ctx, o.wire, "read the latest run of "+file, func(c *cloud, _ bool) (drivertest.Run, error) {
		return o.latest(c.of(workspacePrefix + file)), nil
	})
}

func (o office) latest(ws *workspace) drivertest.Run {
	if ws == nil {
		return drivertest.Run{}
	}
	for _, r := range slices.Backward(o.cloud.runs) {
		if r.workspace == ws.ID && r.ours() && !r.planOnly {
			return o.asRun(r)
		}
	}
	return drivertest.Run{}
}

// Get implements drivertest.System.
func (o office) Get(ctx context.Context, id string) (drivertest.Run, error) {
	return call(ctx, o.wire, "read run "+id, func(c *cloud, _ bool) (drivertest.Run, error) {
		if r := c.run(id); r != nil {
			return o.asRun(r), nil
		}
		return drivertest.Run{}, hcp.ErrNotFound
	})
}

// Begin implements drivertest.System.
func (o office) Begin(ctx context.Context, n drivertest.Run, after string) (drivertest.Run, error) {
	asked := time.Now()
	return call(ctx, o.wire, "begin run "+n.Version, func(c *cloud, late bool) (drivertest.Run, error) {
		if time.Since(asked) > expires {
			return drivertest.Run{}, errors.New("the request has expired")
		}
		ws := c.of(workspacePrefix + n.File)
		if ws == nil {
			ws = c.add(o.world, workspacePrefix+n.File)
			ws.ours = true
		}
		if !n.PlanOnly && o.latest(ws).Version != after {
			return drivertest.Run{}, drivertest.ErrConflict
		}
		up := &upload{id: n.Version, workspace: ws.ID, speculative: n.PlanOnly, module: n.Module, digest: n.Input}
		c.uploads[up.id] = up
		o.judge.uploads(o.process, ctx, up, late)
		r := c.queue(o.world, ws, up)
		r.by, r.late, r.message, r.destroys, r.planOnly = o.process, late, n.Content, n.Destroy, n.PlanOnly
		r.run, _ = ctx.Value(runKey{}).(string)
		o.judge.queues(o.world, r)
		return o.asRun(r), nil
	})
}

// Confirm implements drivertest.System.
func (o office) Confirm(ctx context.Context, id string) error {
	return o.act(ctx, id, "confirmed", func(*remoteRun) hcp.Action { return hcp.Confirm })
}

// End implements drivertest.System.
func (o office) End(ctx context.Context, id, comment string, applying bool) error {
	return o.act(ctx, id, comment, func(r *remoteRun) hcp.Action {
		switch {
		case r.confirmedBy != "" && !applying:
			return ""
		case o.cloud.may(r, hcp.Discard):
			return hcp.Discard
		}
		return hcp.Cancel
	})
}

// act makes a request to confirm, discard or cancel a run.
func (o office) act(ctx context.Context, id, comment string, choose func(*remoteRun) hcp.Action) error {
	return o.do(ctx, "change run "+id, func(c *cloud, late bool) error {
		r := c.run(id)
		if r == nil {
			return hcp.ErrNotFound
		}
		a := choose(r)
		if a == "" || !c.may(r, a) {
			return drivertest.ErrConflict
		}
		o.judge.acts(ctx, o.process, r, a, comment, late)
		c.act(o.world, r, a, us, comment)
		return nil
	})
}

// asRun is a run as the driver sees it.
func (o office) asRun(r *remoteRun) drivertest.Run {
	up := o.cloud.uploads[r.version]
	shown := drivertest.Run{ID: r.id, File: r.task, Version: r.version, Content: r.message, Module: up.module, Input: up.digest, Destroy: r.destroys, PlanOnly: r.planOnly,
		Phase: r.phase(), By: r.confirmedBy, EndedBy: r.endedBy}
	shown.Result = map[string]string{wasApplied: drivertest.Applied, wasUnchanged: drivertest.Unchanged, wasErrored: drivertest.Failed,
		wasDiscarded: drivertest.Discarded, wasCanceled: drivertest.Cancelled}[r.status]
	if r.confirmedBy == us {
		shown.By = drivertest.Us
	}
	if len(r.events) > 0 {
		shown.At = r.events[len(r.events)-1].At
	}
	if r.planned {
		changes := &state.Changes{}
		resources := []driver.ResourceChange{}
		if r.plan.changes {
			changes.Change, changes.Destroy = 1, r.plan.destroys
			resources = append(resources, driver.ResourceChange{Address: r.plan.plan, Action: driver.Update})
		}
		shown.Plan = driver.Plan{Resources: resources, Digest: r.plan.plan, State: r.plan.state, InState: new(len(o.tfstate(r.task).holds.entries)), Changes: changes, Text: r.plan.plan}
	}
	return shown
}
