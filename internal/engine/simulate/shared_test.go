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

// In a cluster, the leader opens launches that wait, and instances with room take them. Some instances have
// another Terraform, or read changed files later than others: they take none. The judge checks that
// nobody takes a launch for which it does not have what the leader has, or which is for another instance, and
// that an instance carries out no more runs at a time than it may.

// shares reports whether instances share runs. In a frost, one that leads is frozen with all its runs.
func (w *world) shares() bool { return w.home == inCluster && !w.remote && !w.weather.frost }

// share has an instance open and take launches.
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

// opening looks at a launch that the leader opens.
func (j *judge) opening(v view, open state.Open) {
	if j.open[open.Launch.ID] = open; j.leader.Owner != v.name {
		v.violated("only the leader opens launches: %s opens %s", v.name, open.Launch.ID)
	}
}

// taking looks at an open launch that a process deletes.
func (j *judge) taking(v view, id string) {
	open, i := j.open[id], v.instanceOf(v.process)
	delete(j.open, id)
	switch {
	case i == nil: // it is dead by now
	case j.leader.Owner == v.name:
		j.begun++
	default:
		j.took++
		if !i.worked[open.Works] {
			v.violated("who takes a launch works with what the leader does: %s, with %q, takes %s, which needs %q", v.name, i.version, id, open.Works)
		}
		if open.Launch.For != "" && open.Launch.For != v.name {
			v.violated("a launch is for one instance: %s takes %s, which is for %s", v.name, id, open.Launch.For)
		}
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
	took, begun := 0, 0
	for seed := uint64(1); seed < 300 && (took < 5 || begun < 5); seed++ {
		out := history(t, seed, nil)
		took, begun = took+out.took, begun+out.begun
	}
	if took < 5 || begun < 5 {
		t.Errorf("of open launches, %d were taken, and %d begun by the leader", took, begun)
	}
}
