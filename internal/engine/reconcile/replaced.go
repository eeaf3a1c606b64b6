package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// observeConsul observes the tasks, and finds out whether Consul was replaced since
// it showed what was applied. Only a tick that reads everything, or that sees a task
// lose entries, sends requests for that.
func (t *tick) observeConsul(ctx context.Context, rec state.Reconcile, states map[string]state.Stored[state.Task]) ([]decide.Input, error) {
	holdsAll := rec.Replaced.HoldsAll()
	t.consuls, t.replaced, t.everything, t.modules = rec.Consuls, rec.Replaced, holdsAll, holdsAll
	inputs, err := t.observe(ctx, rec, states)
	if err != nil || t.unreachable() {
		return inputs, err
	}
	shown, err := t.identify(ctx, inputs)
	if err != nil {
		return nil, err
	}
	next := consulReplaced(rec, shown, marked(inputs), t.Now())
	switch {
	case next.HoldsAll() && (!t.modules || unseen(rec, shown)):
		if err := t.widen(ctx, states); err != nil {
			return nil, err
		}
		t.everything, t.modules = true, true // what every task loses by it, and not what the Consul of before showed
		if inputs, err = t.observe(ctx, rec, states); err != nil {
			return nil, err
		}
		after, err := t.identify(ctx, inputs)
		if err != nil {
			return nil, err
		}
		confirm(next, shown, after)
	case next != nil && !next.HoldsAll():
		maps.DeleteFunc(shown, func(dc string, id state.Identity) bool { return again(rec.Replaced.Now[dc], id) })
	}
	if err := judgeApprovals(ctx, t.Store, next); err != nil {
		return nil, err
	}
	t.consuls, t.replaced = accept(inputs, rec, shown, next, t.everything)
	return inputs, nil
}

// identify reads the identity of Consul in the datacenters that matter. What
// cannot be identified is left out.
func (t *tick) identify(ctx context.Context, inputs []decide.Input) (map[string]state.Identity, error) {
	matter := map[string]bool{}
	if t.everything {
		maps.Copy(matter, t.shown)
	}
	for _, in := range inputs {
		if in.Observed == nil || !t.everything && in.Observed.Lost == nil && !in.State.Unconfirmed {
			continue
		}
		for _, dc := range in.Datacenters {
			matter[dc] = true
		}
	}
	shown := map[string]state.Identity{}
	for _, dc := range slices.Sorted(maps.Keys(matter)) {
		id, err := t.Consul.Identify(ctx, dc)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("identify Consul: %w", ctx.Err())
		}
		if err != nil {
			t.Log.Debug("Consul cannot be identified", "datacenter", dc, "error", err)
			continue
		}
		shown[dc] = id
	}
	return shown, nil
}

// consulReplaced returns in which datacenters Consul is another one than the one
// that showed what was applied; nil if it is in none. marked is how many tasks an
// earlier replacement still holds.
func consulReplaced(rec state.Reconcile, shown map[string]state.Identity, marked int, now time.Time) *state.Replaced {
	next, back := state.Replaced{Since: now, Now: map[string]state.Identity{}}, map[string]state.Identity{}
	if was := rec.Replaced; was != nil {
		next = *was
		next.Now = maps.Clone(was.Now)
	}
	for _, dc := range slices.Sorted(maps.Keys(shown)) {
		before, id := rec.Consuls[dc], shown[dc]
		why := before.Replaced(id)
		was, since := next.Now[dc]
		switch {
		case why != "":
			if !since || again(was, id) {
				next.Since = now
			}
			if !since || !next.HoldsAll() {
				next.Why = strings.TrimPrefix(next.Why+"; "+why+condition.ScopeAt(dc).String(), "; ")
			}
			next.Now[dc], next.Unconfirmed = id, 0
		case since && was.Cluster != before.Cluster && id.Cluster == before.Cluster && id.Cluster != "":
			delete(next.Now, dc) // the Consul of before is back
			back[dc] = id
		case since:
			next.Now[dc] = id // its index grows
		}
	}
	switch {
	case len(next.Now) > 0:
	case marked == 0 || len(back) == 0:
		return nil
	default:
		next.Now, next.Unconfirmed, next.Said = back, marked, false
	}
	return &next
}

// confirm compares which Consul was shown before the tasks were observed and after. If it
// may have been replaced meanwhile, it is not known whose data was read.
func confirm(replaced *state.Replaced, shown, after map[string]state.Identity) {
	for dc, id := range shown {
		now, known := after[dc]
		if !known || again(id, now) {
			delete(shown, dc)
			continue
		}
		shown[dc] = now
		if _, concerned := replaced.Now[dc]; concerned {
			replaced.Now[dc] = now
		}
	}
}

// unseen reports whether Consul is another one than at the last tick. What was read
// before that is known may be what the earlier one showed.
func unseen(rec state.Reconcile, shown map[string]state.Identity) bool {
	for dc, id := range shown {
		switch {
		case rec.Replaced.In([]string{dc}):
			if again(rec.Replaced.Now[dc], id) {
				return true
			}
		case rec.Consuls[dc].Replaced(id) != "":
			return true
		}
	}
	return false
}

// again reports whether a Consul that replaced another one may be replaced itself since
// the last tick. Its index may be low, so that every step back counts: if it is still the
// same, it is read once more without harm.
func again(last, now state.Identity) bool {
	return last.Replaced(now) != "" || now.Index < last.Index
}

// accept adds up what the tasks lose by a replaced Consul, and returns what is recorded.
// It ends the hold of a task if nothing of it is lost any more, or if a person approved
// exactly that. A task of which it is not known what it loses delays no other: it alone is
// held on, as Unconfirmed.
func accept(inputs []decide.Input, rec state.Reconcile, identities map[string]state.Identity, replaced *state.Replaced, everything bool) (map[string]state.Identity, *state.Replaced) {
	consuls := recordConsuls(inputs, rec.Consuls, identities, replaced, everything)
	lost, unread := concerned(inputs, identities, replaced)
	if replaced == nil {
		mark(inputs)
		return consuls, nil
	}
	show(replaced, lost)
	a := replaced.Approved
	approved := a != nil && a.Shown == replaced.Shown
	known := !replaced.HoldsAll() || everything && allIdentified(replaced, identities)
	given := approvalsOf(replaced)
	replaced.Approved, replaced.Earlier = nil, slices.DeleteFunc(slices.Clone(replaced.Earlier), func(a state.ReplacedApproval) bool { return a.Shown != replaced.Shown })
	if !approved && (len(lost) > 0 || !known) {
		replaced.Said = replaced.Said || len(lost) > 0
		for _, in := range lost {
			in.Replaced = replaced
		}
		if !replaced.HoldsAll() {
			replaced.Unconfirmed = mark(inputs, lost, unread)
		} // else the marks stay: the Consul of before may be back
		return consuls, replaced
	}
	var refused []*decide.Input // these need other people, or more of them
	for _, in := range lost {
		if !permit(in, given, replaced.Since) {
			refused, in.Replaced = append(refused, in), replaced
		}
	}
	maps.Copy(consuls, replaced.Now)
	if replaced.Unconfirmed = mark(inputs, refused, unread); replaced.Unconfirmed == 0 {
		return consuls, nil
	}
	show(replaced, refused)
	replaced.Earlier = nil
	for _, earlier := range given {
		if len(refused) > 0 {
			earlier.Shown = replaced.Shown // a part of what was shown
			replaced.Earlier = append(replaced.Earlier, earlier)
		}
	}
	replaced.Said = len(refused) > 0 || replaced.Said && !approved
	return consuls, replaced
}

// recordConsuls returns the identities that are recorded from now on. A Consul that is not
// another one is recorded with its newer index, also while a task cannot be read: compared
// with an old index, a replaced Consul would be the same. A lower index is recorded only if
// every task was read and loses nothing.
func recordConsuls(inputs []decide.Input, was, identities map[string]state.Identity, replaced *state.Replaced, everything bool) map[string]state.Identity {
	complete := replaced == nil && !slices.ContainsFunc(inputs, func(in decide.Input) bool {
		return in.Task.Enabled && !in.Removed && in.Observed == nil || in.Observed != nil && in.Observed.Lost != nil
	})
	consuls := maps.Clone(was)
	if consuls == nil {
		consuls = map[string]state.Identity{}
	}
	for dc, id := range identities {
		before, known := consuls[dc]
		if replaced.HoldsAll() && replaced.In([]string{dc}) || known && before.Replaced(id) != "" {
			continue
		}
		if !known || everything && (complete || id.Index >= before.Index) {
			if id.Cluster == "" {
				id.Cluster = before.Cluster // Connect may be on again
			}
			consuls[dc] = id
		}
	}
	return consuls
}

// concerned returns which tasks lose entries by a replaced Consul, and of which it is not
// known whether they do: they were not read, or have a run under way that may have read
// the Consul of before. A removed task is not read, and may come back, also under another
// name.
func concerned(inputs []decide.Input, identities map[string]state.Identity, replaced *state.Replaced) (lost, unread []*decide.Input) {
	for i := range inputs {
		in := &inputs[i]
		switch {
		case replaced == nil:
			continue
		case in.Removed: // where it would read is not known
			if !in.State.Applied.At.IsZero() && (replaced.HoldsAll() || in.State.Unconfirmed) {
				unread = append(unread, in)
			}
			continue
		case !replaced.Concerns(in.State.Unconfirmed, in.Datacenters):
			continue
		}
		if in.Observed != nil && in.Observed.Lost != nil {
			lost = append(lost, in)
		}
		if in.Observed == nil || mayHaveReadBefore(in) || !identified(in.Datacenters, replaced, identities) {
			unread = append(unread, in)
		}
	}
	return lost, unread
}

// mark marks the tasks that are held on while others run again, and no other. It returns how
// many they are.
func mark(inputs []decide.Input, held ...[]*decide.Input) int {
	for i := range inputs {
		inputs[i].Unconfirmed = false
	}
	for _, in := range slices.Concat(held...) {
		in.Unconfirmed = true
	}
	return marked(inputs)
}

// marked returns how many tasks are marked.
func marked(inputs []decide.Input) (n int) {
	for _, in := range inputs {
		if in.Unconfirmed {
			n++
		}
	}
	return n
}

// judgeApprovals leaves out approvals whose tokens were revoked since.
func judgeApprovals(ctx context.Context, s state.Store, replaced *state.Replaced) error {
	if replaced == nil || replaced.Approved == nil {
		return nil
	}
	all := append(slices.Clone(replaced.Earlier), *replaced.Approved)
	given, err := credentials.Judge(ctx, s, list.Map(all, func(a state.ReplacedApproval) state.Given {
		return state.Given{By: a.By, Proof: a.Proof, Account: a.Account}
	}))
	if err != nil {
		return err
	}
	last := len(all) - 1
	if given[last].Revoked {
		replaced.Approved = nil
	}
	replaced.Earlier = nil
	for i, a := range all[:last] {
		if !given[i].Revoked {
			replaced.Earlier = append(replaced.Earlier, a)
		}
	}
	return nil
}

// approvalsOf are those of everything that is lost, the newest last. Earlier ones of something else
// are void.
func approvalsOf(replaced *state.Replaced) []state.ReplacedApproval {
	if replaced.Approved == nil {
		return nil
	}
	earlier := slices.DeleteFunc(slices.Clone(replaced.Earlier), func(a state.ReplacedApproval) bool {
		return a.Shown != replaced.Approved.Shown || a.By == replaced.Approved.By
	})
	return append(earlier, *replaced.Approved)
}

// permit permits the task to lose what it was approved to lose, if enough people have approved that
// who may. It reports whether they have.
func permit(in *decide.Input, given []state.ReplacedApproval, since time.Time) bool {
	rule := in.Task.Approval
	var all []state.Given
	for _, a := range given {
		if one, err := rule.Given(a.Who(), in.ChangedBy, since, a.At, a.Comment); err == nil {
			one.ID = newID()
			all = append(all, one)
		}
	}
	counting := rule.Counting(all, given[len(given)-1].At)
	if len(counting) < rule.Needed() {
		return false
	}
	content := state.Content{Definition: in.Definition, Input: in.Observed.Inputs}
	approval := state.ApprovalOf(content, counting[len(counting)-rule.Needed():])
	in.Accepted = &state.Accepted{Approval: approval, Observed: in.Observed.Digest}
	return true
}

// allIdentified reports whether it is known which Consul answers wherever it was replaced.
func allIdentified(replaced *state.Replaced, identities map[string]state.Identity) bool {
	return identified(slices.Collect(maps.Keys(replaced.Now)), replaced, identities)
}

// identified reports whether the datacenters in which Consul was replaced are identified.
func identified(datacenters []string, replaced *state.Replaced, identities map[string]state.Identity) bool {
	return !slices.ContainsFunc(datacenters, func(dc string) bool {
		_, concerned := replaced.Now[dc]
		_, known := identities[dc]
		return concerned && !known
	})
}

// show records what is held: these tasks, which would lose entries.
func show(replaced *state.Replaced, lost []*decide.Input) {
	sum := sha256.New()
	replaced.Tasks, replaced.Entries, replaced.Names = len(lost), 0, nil
	for i, in := range lost {
		replaced.Entries += in.Observed.Lost.Entries
		if i < state.MaxNames {
			replaced.Names = append(replaced.Names, in.Task.Name)
		}
		fmt.Fprintf(sum, "%q %s %s %s\n", in.Task.Name, in.Definition, in.Observed.Digest, in.Observed.Inputs)
	}
	replaced.Shown = hex.EncodeToString(sum.Sum(nil))
}

// mayHaveReadBefore reports whether the task has a run that may apply what the Consul of
// before showed. When the run began does not matter: a clock may have been set back since.
// A run that waits reads Consul again, but a remote run applies what was uploaded, however
// often the run has been resumed since.
func mayHaveReadBefore(in *decide.Input) bool {
	run := in.State.Run
	return run != nil && in.Lost == nil && (run.Wait == nil || in.State.LiveRemote() != nil)
}
