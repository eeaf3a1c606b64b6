package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// In a cluster, the leader gives launches to instances that have room. Some instances have another
// Terraform, or read changed files later than others: they get no launches. The judge checks that
// nobody takes a launch for which it does not have what the leader has, that the leader does not carry out
// what it offers, and that an instance carries out no more runs at a time than it may.

// shares reports whether instances share runs. In a frost, one that leads is frozen with all its runs.
func (w *world) shares() bool { return w.home == inCluster && !w.remote && !w.weather.frost }

// share has an instance give and take launches.
func (i *instance) share(ctx context.Context, local *launch.Local, engine *reconcile.Reconciler) {
	i.shared = launch.NewShared(local, summary.Keep(view{process: i.process}), i.name)
	i.shared.Works, i.shared.Skew, i.shared.Now, i.shared.Log = i.works, clusterSkew, i.now, nothing
	engine.Launcher, engine.Apart = i.shared, true
	go i.shared.Serve(ctx)
}

// works is what the instance works with.
func (i *instance) works() string {
	with := fmt.Sprintf("%s %d", i.version, i.config.Load())
	i.mu.Lock()
	defer i.mu.Unlock()
	i.worked[with] = true
	return with
}

// latest is how much later than others an instance of a cluster reads changed files at most.
const latest = 20 * time.Second

// readsLate has the instance read the files after a while, unless they have changed again.
func (i *instance) readsLate(after time.Duration, pointer int) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-i.alive.Done():
		return false
	case <-timer.C:
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pointer != pointer {
		return false
	}
	i.config.Store(int64(pointer))
	return true
}

// instanceOf returns the instance that a process is; nil if it is none.
func (w *world) instanceOf(p *process) *instance {
	for _, i := range w.instances {
		if i.process == p {
			return i
		}
	}
	return nil
}

// awaitFor is how long a process waits for changes of the store at most.
const awaitFor = time.Minute

// waiter is a process that waits until a record below a prefix changes.
type waiter struct {
	prefix  string
	changed chan struct{}
}

// changes is how often the records below a prefix have changed.
func (m *memory) changes(prefix string) (n int) {
	for key, version := range m.changed {
		if strings.HasPrefix(key, prefix) {
			n = max(n, version)
		}
	}
	return n
}

// change notes that a record has changed.
func (m *memory) change(key string) {
	m.changed[key] = m.version
	for _, w := range m.waiters {
		if strings.HasPrefix(key, w.prefix) {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
	}
}

var _ state.Awaiter = view{}

// Await implements state.Awaiter.
func (v view) Await(ctx context.Context, prefix, mark string) (string, error) {
	w := &waiter{prefix, make(chan struct{}, 1)}
	v.mu.Lock()
	v.memory.waiters = append(v.memory.waiters, w)
	waits := mark == fmt.Sprint(v.memory.changes(prefix))
	v.mu.Unlock()
	if waits {
		timer := time.NewTimer(awaitFor)
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	v.mu.Lock()
	v.memory.waiters = slices.DeleteFunc(v.memory.waiters, func(other *waiter) bool { return other == w })
	v.mu.Unlock()
	return ask(ctx, v.process, store, "await "+prefix, func() (string, error) {
		return fmt.Sprint(v.memory.changes(prefix)), nil
	})
}

// sharing looks at a launch that is written in a cluster.
func (j *judge) sharing(v view, before, launch state.Launch) {
	if v.home != inCluster {
		return
	}
	i := v.instanceOf(v.process)
	if before.Offer == "" && launch.Offer != "" {
		j.offers[launch.ID] = j.leader.Fence
	}
	switch {
	case i == nil:
	case before.Offer == "" && launch.Offer != "" && j.leader.Owner != v.name:
		v.violated("only the leader offers launches: %s offers %s to %s", v.name, launch.ID, launch.Offer)
	case before.Taker == "" && launch.Taker == v.name:
		j.took++
	case before.Taker == "" && launch.Taker == state.TakenByContainer:
		j.withdrew++
	}
	if i != nil && before.Taker == "" && launch.Taker == v.name && !i.worked[launch.Definition] {
		v.violated("who takes a launch works with what the leader does: %s, with %q, takes %s, which needs %q", v.name, i.version, launch.ID, launch.Definition)
	}
}

// claimed looks at a run that an instance of a cluster claims.
func (j *judge) claimed(v view, before, run state.Run) {
	if v.home != inCluster || before.State == state.RunRunning || run.State != state.RunRunning || !run.Kind.Applies() {
		return
	}
	launch := j.launches[run.Launch]
	// What was waiting there since it led before, another leader may have offered meanwhile: the claim decides.
	waited := j.leaders[launch.Fence] == v.name && j.leaders[j.offers[launch.ID]] != v.name
	if launch.Offered() && j.leader.Owner == v.name && !waited {
		v.violated("an offer is withdrawn before the leader carries out the launch: %s claims run %s of %s, which is offered to %s", v.name, run.ID, launch.ID, launch.Offer)
	}
	if launch.TakenByRunner() && launch.Taker != v.name && j.leader.Owner == v.name {
		v.violated("the leader does not carry out what another instance has taken: %s claims run %s of %s, which %s has", v.name, run.ID, launch.ID, launch.Taker)
	}
}

// crowded looks at an instance that begins to apply something.
func (j *judge) crowded(p *process) {
	n := 0
	for _, other := range j.applying {
		if other == p {
			n++
		}
	}
	if p.shares() && n > 1 {
		p.violated("an instance has no more runs than it may have: %s applies %d tasks", p.name, n)
	}
}

// The simulation says nothing about sharing if no launch is ever taken.
func TestInHistoriesOfAClusterInstancesTakeLaunches(t *testing.T) {
	took, withdrew := 0, 0
	for seed := uint64(1); seed < 300 && (took < 5 || withdrew < 1); seed++ {
		out := history(t, seed, nil)
		took, withdrew = took+out.took, withdrew+out.withdrew
	}
	if took < 5 || withdrew < 1 {
		t.Errorf("%d launches were taken, and %d withdrawn", took, withdrew)
	}
}
