package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// anHour is how long a claim lasts here: what must not happen in a history is
// a renewal at a moment that nobody chose.
const anHour = time.Hour

// proc is one process.
type proc struct {
	driver.Driver
	*world
	owner   string
	rec     *reconcile.Reconciler
	run     *runner.Runner
	held    *lease.Lease // as the loop holds it; nil: a tick takes its own
	queue   []queued
	alive   map[string]int // runs that have not ended, by launch
	dead    bool
	ticking bool
	unread  map[string]bool // tasks that could not be read in this tick
}

type queued struct {
	launch state.Launch
	run    state.PlannedRun
}

// crash unwinds a process that has died.
type crash struct{ *proc }

type runKey struct{}

// do does something in the process, which may die of it.
func (p *proc) do(what func()) {
	if p.dead {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			if c, ok := r.(crash); !ok || c.proc != p {
				panic(r)
			}
		}
	}()
	what()
}

// view is the store as a process sees it: its ticks, or its runs.
type view struct {
	*proc
	tick bool
}

// before is what may happen before the store is asked for something.
func (v view) before() error {
	switch {
	case v.dead:
	case v.chance(1, "dies before"):
		v.dead = true
	case v.chance(2, "refused"):
		return errors.New("the store does not answer")
	case v.chance(5, "others act"):
		v.step(1)
	}
	if v.dead {
		panic(crash{v.proc})
	}
	return nil
}

func (v view) Get(ctx context.Context, key string) (state.Record, error) {
	if err := v.before(); err != nil {
		return state.Record{}, err
	}
	return v.store.Get(ctx, key)
}

func (v view) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if err := v.before(); err != nil {
		return nil, err
	}
	return v.store.List(ctx, prefix)
}

func (v view) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := v.before(); err != nil {
		return nil, err
	}
	was := v.store.All()
	written, err := v.store.Apply(ctx, changes...)
	if err != nil {
		return nil, err
	}
	v.judge(was, changes)
	switch {
	case v.chance(3, "answer lost"):
		return nil, errors.New("connection reset")
	case v.chance(1, "dies after"):
		v.dead = true
		panic(crash{v.proc})
	}
	return written, nil
}

func (v view) Close() error { return nil }

// judge looks at a write that has taken place.
func (v view) judge(was map[string]state.Record, changes []state.Change) {
	checked := slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == "lease/reconcile" }) // or released in the same write
	leads := decoded[lease.Holder](was["lease/reconcile"])
	for _, c := range changes {
		collection, _, _ := strings.Cut(c.Key, "/")
		switch {
		case c.Op == state.OpCheck || collection == "lease":
		case v.tick && c.Op != state.OpDelete && (!checked || leads.Owner != v.owner):
			v.violated("one leader acts: %s wrote %s while %q leads (its lease was checked: %v)", v.owner, c.Key, leads.Owner, checked)
		case collection == "launch":
			if l := decoded[state.Launch](state.Record{Value: c.Value}); l.Fence != leads.Fence {
				v.violated("one leader acts: %s wrote a launch under token %d while %s leads with %d", v.owner, l.Fence, leads.Owner, leads.Fence)
			}
		case collection == "run" && c.Op != state.OpDelete:
			before, run := decoded[state.Run](was[c.Key]), decoded[state.Run](state.Record{Value: c.Value})
			if before.State.Ended() && before.ID != "" {
				v.violated("run %s had ended (%s) and was changed to %s by %s", run.ID, before.State, run.State, v.owner)
			}
			if before.State == state.RunRunning && run.State == state.RunRunning && before.Claim != run.Claim {
				v.violated("run %s was claimed by %s and again by %s", run.ID, before.Owner, run.Owner)
			}
			if run.State == state.RunIntended && v.unread[run.Task] {
				v.violated("nothing is run on a partial read: %s was", run.Task)
			}
		case collection == "task":
			before, now := decoded[state.Task](was[c.Key]), decoded[state.Task](state.Record{Value: c.Value})
			if before.Applied != now.Applied && (now.Last == nil || v.rendered[now.Last.Run] != now.Applied) {
				v.violated("%s is said to be applied with %s, which no successful apply rendered: %+v", c.Key, now.Applied, now.Last)
			}
			if len(now.History) > state.History {
				v.violated("%s has a history of %d runs", c.Key, len(now.History))
			}
		}
	}
	live := map[string]string{}
	for key, rec := range v.store.All() {
		if !strings.HasPrefix(key, "run/") {
			continue
		}
		if run := decoded[state.Run](rec); !run.State.Ended() {
			if live[run.Task] != "" {
				v.violated("one live run per task: %s has %s and %s", run.Task, live[run.Task], run.ID)
			}
			live[run.Task] = run.ID
		}
	}
	for key, rec := range v.store.All() {
		if !strings.HasPrefix(key, "task/") {
			continue
		}
		name, known := state.TaskName(key), ""
		if task := decoded[state.Task](rec); task.Run != nil {
			known = task.Run.ID
		}
		if known != live[name] {
			v.violated("one live run per task: %s knows of run %q, %q is live", name, known, live[name])
		}
	}
}

// decoded is what a record says; the zero value if it is not there.
func decoded[T any](rec state.Record) T {
	if rec.Value == nil {
		var zero T
		return zero
	}
	out, err := state.Decode[T](rec)
	if err != nil {
		panic(err)
	}
	return out.Data
}

// Observe answers queries. A query belongs to the service whose condition it reads.
func (p *proc) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i, q := range queries {
		for service := range p.digests {
			watching := task(service)
			if query, _ := consul.ConditionQuery(&watching); query.ID() != q.ID() {
				continue
			}
			if p.gone || p.closed[service] {
				p.unread[service] = true
				answers[i].Err = errors.New("permission denied")
				continue
			}
			answers[i].Digest = p.digests[service]
			answers[i].Elements = map[string]string{service: p.digests[service]}
		}
	}
	return answers
}

func (p *proc) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	if p.gone {
		return nil, errors.New("no cluster leader")
	}
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = fmt.Sprint(p.mark)
	}
	return marks, nil
}

func (*proc) Identify(context.Context, string) (state.Identity, error) { return state.Identity{}, nil }

func (p *proc) Snapshot(_ context.Context, t *config.Task) (*consul.Snapshot, error) {
	if p.gone || p.closed[t.Name] {
		return nil, errors.New("permission denied")
	}
	return &consul.Snapshot{Condition: consul.Observation{Digest: p.digests[t.Name], Elements: map[string]string{t.Name: "x"}}}, nil
}

// Apply is Terraform: others act while it works, and it may fail.
func (p *proc) Apply(ctx context.Context, job driver.Job) (_ *state.Changes, err error) {
	t, snap, out := job.Task, job.Snapshot, job.Output
	defer func() {
		if r := recover(); r != nil {
			p.panic, p.dead, err = r, true, errors.New("unwinding")
		}
	}()
	id := ctx.Value(runKey{}).(string)
	record := decoded[state.Run](p.store.All()[state.RunKey(t.Name, id)])
	if record.State != state.RunRunning || record.Owner != p.owner {
		p.violated("%s applies run %s, which is %s of %q", p.owner, id, record.State, record.Owner)
	}
	if p.applies[id] {
		p.violated("run %s is applied twice", id)
	}
	p.applies[id] = true
	p.infra[t.Name] = "half done"
	for p.chance(30, "others act meanwhile") {
		p.step(1)
	}
	switch {
	case p.dead || p.chance(5, "dies while it applies"):
		p.dead = true
		return nil, errors.New("killed")
	case p.chance(20, "Terraform fails"):
		return nil, errors.New("module is broken")
	}
	fmt.Fprintln(out, "Apply complete!")
	p.infra[t.Name], p.rendered[id] = snap.Condition.Digest, snap.Condition.Digest
	return &state.Changes{Add: 1}, nil
}

func (p *proc) Start(_ context.Context, l state.Launch) error {
	for _, run := range l.Runs {
		if _, there := p.store.All()[state.RunKey(run.Task, run.ID)]; !there {
			p.violated("run %s was launched before its intent was written", run.ID)
		}
	}
	if p.chance(5, "launch refused") {
		return errors.New("no answer")
	}
	if p.alive[l.ID] == 0 {
		p.alive[l.ID] = len(l.Runs)
		for _, run := range l.Runs {
			p.queue = append(p.queue, queued{l, run})
		}
	}
	if p.chance(5, "answer of the launch lost") {
		return errors.New("no answer")
	}
	return nil
}

func (p *proc) Status(_ context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	all := map[string]reconcile.LaunchStatus{}
	for _, id := range launches {
		all[id] = reconcile.LaunchStatus{Running: p.alive[id] > 0}
	}
	return all, nil
}

// tick has the process tick.
func (p *proc) tick(opts reconcile.TickOptions) (report reconcile.Report) {
	if p.ticking {
		return report
	}
	p.do(func() {
		p.ticking, p.unread = true, map[string]bool{}
		defer func() { p.ticking, p.unread = false, nil }()
		opts.Lease = p.held
		var err error
		report, err = p.rec.Tick(context.Background(), opts)
		if errors.Is(err, lease.ErrLost) {
			p.held = nil
		}
	})
	return report
}

// next carries out a run that waits for its turn.
func (p *proc) next() {
	if len(p.queue) == 0 {
		return
	}
	q := p.queue[0]
	p.queue = p.queue[1:]
	p.do(func() {
		ctx := context.WithValue(context.Background(), runKey{}, q.run.ID)
		_ = p.run.Run(ctx, q.launch, q.run) // what has no outcome is found lost
		p.alive[q.launch.ID]--
	})
}
