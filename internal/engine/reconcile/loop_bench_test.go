package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// These tests run in a bubble whose clock moves when everything waits: hours
// pass at once, and what is measured is exact.

// gates is a Watch whose marks follow the catalog.
type gates struct {
	c    chan struct{}
	keys []string

	mu   sync.Mutex
	mark string
	err  error
}

func (g *gates) C() <-chan struct{} { return g.c }

func (g *gates) Marks() (consul.Marks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	marks := consul.Marks{}
	if g.err == nil {
		for _, key := range g.keys {
			marks[key] = g.mark
		}
	}
	return marks, g.err
}

// show moves the gates and tells it.
func (g *gates) show(mark string, err error) {
	g.mu.Lock()
	g.mark, g.err = mark, err
	g.mu.Unlock()
	select {
	case g.c <- struct{}{}:
	default:
	}
}

// loopBench is a bench with a Loop, on the clock of the bubble.
type loopBench struct {
	*bench
	Loop  *Loop
	gates *gates
	ended chan struct{}
	stop  context.CancelFunc
	done  chan struct{} // closed when Run has returned
	stood []string      // who was found to lead
}

func newLoopBench(t *testing.T, tasks ...config.Task) *loopBench {
	t.Helper()
	b := newBench(t, tasks...)
	b.Reconciler.Now = time.Now
	return b.loop(b.Reconciler)
}

// stoodBy is a log that notes who is found to lead.
type stoodBy struct {
	slog.Handler
	of *loopBench
}

func (stoodBy) Enabled(context.Context, slog.Level) bool { return true }

func (s stoodBy) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "standing by" && a.Key == "leader" {
			s.of.stood = append(s.of.stood, a.Value.String())
		}
		return true
	})
	return nil
}

// loop returns a Loop around the reconciler.
func (b *bench) loop(r *Reconciler) *loopBench {
	l := &loopBench{bench: b, gates: &gates{c: make(chan struct{}, 1), mark: "A"}, ended: make(chan struct{}, 1)}
	r.Log = slog.New(stoodBy{slog.DiscardHandler, l})
	l.Loop = &Loop{Reconciler: r, Ended: l.ended,
		Watch: func(_ context.Context, set consul.GateSet, _ consul.Marks) Watch {
			l.gates.keys = set.Keys()
			l.gates.show("A", nil)
			return l.gates
		},
	}
	return l
}

// start runs the loop until the test ends.
func (l *loopBench) start() {
	ctx, stop := context.WithCancel(l.bench.t.Context())
	l.stop, l.done = stop, make(chan struct{})
	go func() {
		defer close(l.done)
		if err := l.Loop.Run(ctx); err != nil {
			l.bench.t.Error(err)
		}
	}()
	l.bench.t.Cleanup(l.end)
	synctest.Wait()
}

// end tells the loop to stop and waits for it.
func (l *loopBench) end() {
	l.stop()
	<-l.done
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// finish ends the runs under way with what Consul shows, and tells the loop.
func (l *loopBench) finish() {
	l.bench.t.Helper()
	l.bench.now = time.Now()
	l.bench.end(state.RunSucceeded, l.catalog.digest)
	l.launcher.forget()
	select {
	case l.ended <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// change makes Consul show something else, and the gates with it.
func (l *loopBench) change(digest string) {
	l.catalog.set(digest, nil)
	l.gates.show(digest, nil)
	synctest.Wait()
}

// launched returns the tasks that were launched.
func (l *loopBench) launched() []string {
	var names []string
	for _, launch := range l.launcher.launches() {
		for _, run := range launch.Runs {
			names = append(names, run.Task)
		}
	}
	return names
}
