package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// audited returns the changes that write the entries of what people have decided in another system. They
// belong into the write that records the run: then no decision is lost, and none gets two entries.
func (c *claim) audited(ctx context.Context, run state.Run, done result) ([]state.Change, error) {
	if len(done.Decided) == 0 {
		return nil, nil
	}
	rec, err := state.Read[state.Remote](ctx, c.Store, state.RemoteKey(run.Task))
	if err != nil {
		return nil, fmt.Errorf("read which decisions of the other system the audit record of task %s has: %w", run.Task, err)
	}
	var changes []state.Change
	has := rec.Data.Audited
	for _, d := range done.Decided {
		now, already := d.Audited(has)
		if already {
			continue
		}
		e, err := c.entryOf(ctx, run, d)
		if err != nil {
			return nil, err
		}
		actor := audit.Actor{Identity: identity.Identity{Name: d.By, Proof: identity.Attested}, Via: audit.Remote, Keep: c.auditRetention}
		changes, has = append(changes, audit.Write(audit.With(ctx, actor), e, d.By, c.Now())), now
	}
	if has == rec.Data.Audited || !rec.Exists() || !run.Kind.Occupies() { // a plan is made once, and by one run
		return changes, nil
	}
	next := rec.Data
	next.Audited = has
	return append(changes, rec.Write(next)), nil
}

func (c *claim) auditRetention(context.Context) time.Duration {
	if keep := c.Config().AuditRetention; keep > 0 {
		return keep
	}
	return audit.Retention
}

// entryOf is the entry of a decision. It has the content of the plan if Terrapulse has judged that.
func (c *claim) entryOf(ctx context.Context, run state.Run, d driver.Decision) (audit.Entry, error) {
	e := audit.Entry{Action: d.Action, Task: run.Task, Run: d.Run, Comment: d.Comment, Detail: "remote run " + d.Remote}
	if !d.At.IsZero() {
		e.Detail += ", decided at " + clock.UTC(d.At)
	}
	if d.URL != "" {
		e.Detail += ": " + d.URL
	}
	of := c.claimed
	switch d.Run {
	case run.ID:
	case "":
		of = state.Run{}
	default:
		earlier, err := state.Read[state.Run](ctx, c.Store, state.RunKey(run.Task, d.Run))
		if err != nil && !errors.As(err, new(*state.CorruptError)) {
			return e, fmt.Errorf("read run %s of task %s, about which somebody has decided in the other system: %w", d.Run, run.Task, err)
		}
		of = earlier.Data
	}
	switch w := of.Wait; {
	case w != nil && w.For == state.WaitApproval && w.Content != nil:
		e.Plan, e.Content = w.ID, w.Content
	case of.Approval != nil && of.Approval.Content.Plan != "": // it was confirmed earlier
		e.Content = &of.Approval.Content
	}
	if d.Action == audit.Approve {
		if but := although(of.Wait); but != "" {
			e.Detail += "; the other system applies it" + but
		}
	}
	return e, nil
}
