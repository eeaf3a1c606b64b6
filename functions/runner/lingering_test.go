package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// lingering is a container whose launches linger, with a leader that offers it more.
type lingering struct {
	*container
	ticks chan struct{} // an invocation of functions/reconcile
	ended chan error
	stop  context.CancelCauseFunc
}

func newLingering(t *testing.T, modules ...string) *lingering {
	t.Helper()
	l := &lingering{container: newContainer(t, modules...), ticks: make(chan struct{}, 10), ended: make(chan error, 1)}
	l.lingers()
	l.worker.lingering = &linger.Runner{Store: l.store, ID: "task", Definition: "prod-runner:7", Now: time.Now, Log: l.log}
	l.proceed = func(context.Context) error { l.ticks <- struct{}{}; return nil }
	return l
}

// start starts the container for the first launch.
func (l *lingering) start() *lingering {
	ctx, stop := context.WithCancelCause(l.t.Context())
	l.stop = stop
	l.t.Cleanup(func() { stop(nil) })
	go func() { l.ended <- l.work(ctx, "l1") }()
	return l
}

// lingers makes the launch that was decided last one whose container lingers.
func (c *container) lingers() {
	c.t.Helper()
	launch, err := state.Read[state.Launch](c.t.Context(), c.store, state.LaunchKey(c.launch.ID))
	if err != nil {
		c.t.Fatal(err)
	}
	launch.Data.Linger = time.Minute
	if _, err := c.store.Apply(c.t.Context(), launch.Write(launch.Data)); err != nil {
		c.t.Fatal(err)
	}
}

// free waits until the container has said that it is free.
func (l *lingering) free() state.Stored[state.Runner] {
	l.t.Helper()
	select {
	case <-l.ticks:
	case err := <-l.ended:
		l.t.Fatalf("the container has ended: %v\n%s", err, l.out)
	case <-time.After(time.Minute):
		l.t.Fatalf("the container is not free:\n%s", l.out)
	}
	runner, err := state.Read[state.Runner](l.t.Context(), l.store, state.RunnerKey("task"))
	if err != nil || !runner.Data.Free() || runner.Data.Definition != "prod-runner:7" {
		l.t.Fatalf("its record reads %+v (%v)", runner.Data, err)
	}
	return runner
}

// offer decides another launch of the tasks, and offers it to the container.
func (l *lingering) offer(id, bundle string) {
	l.t.Helper()
	runner := l.free()
	for _, task := range l.cfg.Tasks {
		record, err := state.Read[state.Task](l.t.Context(), l.store, state.TaskKey(task.Name))
		if err == nil {
			_, err = l.store.Apply(l.t.Context(), state.Delete(record.Record))
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
	l.decide(id, state.KindApply)
	launch, err := state.Read[state.Launch](l.t.Context(), l.store, state.LaunchKey(id))
	if err != nil {
		l.t.Fatal(err)
	}
	launch.Data.Bundle, launch.Data.Linger, launch.Data.Offer = bundle, time.Minute, "task"
	if _, err := l.store.Apply(l.t.Context(), launch.Write(launch.Data), linger.Write(runner, id)); err != nil {
		l.t.Fatal(err)
	}
}

// end waits until the container has ended.
func (l *lingering) end() {
	l.t.Helper()
	select {
	case err := <-l.ended:
		if err != nil {
			l.t.Error(err)
		}
	case <-time.After(time.Minute):
		l.t.Fatalf("the container does not end:\n%s", l.out)
	}
}

func TestWork_LingeringContainerExecutesWhatItTakes(t *testing.T) {
	l := newLingering(t, good)
	bundles, loads := map[string]*config.Config{noBundle: l.cfg}, 0
	l.bundle = func(_ context.Context, digest string) (*config.Config, error) { loads++; return bundles[digest], nil }
	l.start()
	l.offer("l2", noBundle)
	l.free()
	if run := l.run("t0"); run.Launch != "l2" || run.State != state.RunSucceeded || run.Runner != "task" || run.Launched.Before(run.Created) {
		t.Errorf("the run that it took reads %+v", run)
	}
	if l.worker.launch != "l2" { // the log names it if the container fails
		t.Errorf("it executes launch %s", l.worker.launch)
	}
	if n := strings.Count(l.out.String(), `"msg":"launch begun"`); n != 2 {
		t.Errorf("%d launches have begun", n)
	}
	l.ticks <- struct{}{}
	other := strings.Repeat("1", 64) // a bundle is pushed, with another module
	l.write("m0/main.tf", "variable \"services\" {}\n"+strings.Replace(good, "done", "new", 1))
	l.cfg = loadTasks(t, l.dir)
	bundles[other] = l.cfg // read by the container only once the launch is offered
	l.offer("l3", other)
	l.free()
	if run := l.run("t0"); run.Launch != "l3" || run.State != state.RunSucceeded || l.read("m0/out") != "new" {
		t.Errorf("after a push the run reads %+v, the file %q", run, l.read("m0/out"))
	}
	if loads != 2 {
		t.Errorf("bundles were read %d times, want each once", loads)
	}
	l.stop(errStopped)
	l.end()
	l.measured(metrics.LingerSeconds, 3)
	if runner, err := state.Read[state.Runner](context.WithoutCancel(t.Context()), l.store, state.RunnerKey("task")); err != nil || runner.Exists() {
		t.Errorf("its record reads %+v (%v)", runner.Data, err)
	}
}

func TestWork_ContainerEndsAfterARunThatFailed(t *testing.T) {
	l := newLingering(t, good, broken).start()
	l.end()
	if runner, err := state.Read[state.Runner](t.Context(), l.store, state.RunnerKey("task")); err != nil || runner.Exists() || l.run("t0").State != state.RunSucceeded {
		t.Errorf("its record reads %+v (%v)", runner.Data, err)
	}
}

// It has rights to plan only, and runs code that perhaps nobody has approved.
func TestWork_ContainerOfAPlanTakesNoLaunch(t *testing.T) {
	l := newLingering(t, good)
	l.decide("l2", state.KindPlan)
	if err := l.work(t.Context(), "l2"); err != nil || l.run("t0").State != state.RunSucceeded {
		t.Fatalf("the plan is %s (%v)", l.run("t0").State, err)
	}
	if runner, err := state.Read[state.Runner](t.Context(), l.store, state.RunnerKey("task")); err != nil || runner.Exists() || len(l.ticks) > 0 {
		t.Errorf("it says that it is free: %+v (%v)", runner.Data, err)
	}
}

func TestLinger_ContainerTakesNoLaunchAfterAnHour(t *testing.T) {
	l := newLingering(t, good).start()
	l.free()
	l.stop(errStopped)
	l.end()
	l.launch.Linger = 10 * time.Minute
	if _, more := l.linger(t.Context(), l.launch, time.Now().Add(-lingerLife)); more {
		t.Error("it waits although it has the secrets of an hour ago")
	}
	if runner, err := state.Read[state.Runner](t.Context(), l.store, state.RunnerKey("task")); err != nil || runner.Exists() {
		t.Errorf("it says that it is free: %+v (%v)", runner.Data, err)
	}
}
