package reconcilefunction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// paced is a driver whose applies take as long as takes says.
type paced struct {
	remote
	takes func(task string) time.Duration

	mu    sync.Mutex
	began map[string][]time.Time
}

func (p *paced) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	p.mu.Lock()
	p.began[job.Task.Name] = append(p.began[job.Task.Name], time.Now())
	p.mu.Unlock()
	if !delay.For(ctx, p.takes(job.Task.Name)) {
		return driver.Outcome{}, ctx.Err()
	}
	return driver.Outcome{Changes: &state.Changes{Add: 1}}, nil
}

// pace starts a process whose runs take as long as takes says.
func (s *stack) pace(takes func(task string) time.Duration) (*Handler, *paced) {
	p := &paced{takes: takes, began: map[string][]time.Time{}}
	h := s.elsewhere(&p.remote)
	h.executor.drivers = map[*remotes.Kind]remotes.Driver{remotes.Kinds[0]: p}
	return h, p
}

// fifty are the names of as many tasks.
func fifty() (names []string) {
	for n := range 50 {
		names = append(names, fmt.Sprintf("task-%02d", n))
	}
	return names
}

// staggered lets each task take 7 seconds longer than the one in front of it.
func staggered(task string) time.Duration {
	n := 0
	_, _ = fmt.Sscanf(task, "task-%02d", &n)
	return time.Duration(n+1) * 7 * time.Second
}

func (s *stack) succeeded(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if run := s.run(name); run.State != state.RunSucceeded || s.task(name).Run != nil {
			s.t.Errorf("%s: %s %s, under way: %v", name, run.State, run.Error, s.task(name).Run)
		}
	}
}

func TestFinish_TaskBeginsAfterTheOneItWaitsForWhileOthersStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "slow", "first", "second", "third")
		s.configs["b1"].Tasks[2].After = []string{"first"}
		s.configs["b1"].Tasks[3].After = []string{"second"}
		h, p := s.pace(func(task string) time.Duration {
			if task == "slow" {
				return 5 * time.Minute
			}
			return 2 * time.Second
		})
		began := time.Now()
		if _, err := s.within(10*time.Minute, h, due); err != nil {
			t.Fatal(err)
		}
		s.succeeded("slow", "first", "second", "third")
		for task, at := range map[string]time.Duration{"second": 4 * time.Second, "third": 10 * time.Second} {
			if all := p.began[task]; len(all) != 1 || all[0].Sub(began) > at {
				t.Errorf("%s began at %v after %s, want once within %s", task, all, began, at)
			}
		}
		s.measuredTicks(4) // at first, after each of the two ends that another task waits for, and at last
	})
}

// Each tick costs requests to the table.
func TestFinish_NoFurtherTicksIfNoTaskWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, fifty()...)
		counted := &statetest.Faulty{Store: s.store}
		s.store = counted
		h, _ := s.pace(staggered)
		if _, err := s.within(15*time.Minute, h, due); err != nil {
			t.Fatal(err)
		}
		s.measuredTicks(2)
		if reads, writes := counted.Reads.Load(), counted.Writes.Load(); reads > 320 || writes > 600 {
			t.Errorf("50 runs cost %d reads and %d writes", reads, writes) // with a tick after each end, 10 times as many
		}
		s.succeeded(fifty()...)
	})
}

func TestFinish_BoundsTheTicksIfATaskWaitsForAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := fifty()
		s := newStack(t, append(names, "last")...)
		s.configs["b1"].Tasks[50].After = names
		h, p := s.pace(func(task string) time.Duration { return staggered(strings.Replace(task, "last", "task-00", 1)) })
		if _, err := s.within(15*time.Minute, h, due); err != nil {
			t.Fatal(err)
		}
		if ticks := s.measured()["Ticks"]; ticks < 4 || ticks > 12 {
			t.Errorf("%v ticks", ticks)
		}
		s.succeeded(append(names, "last")...)
		if len(p.began["last"]) != 1 {
			t.Errorf("the task after all others began at %s", p.began["last"])
		}
	})
}

func TestFinish_EndsInTimeIfATaskIsAwaitedAtTheEndOfTheInvocation(t *testing.T) {
	for _, ends := range []time.Duration{20 * time.Second, 34 * time.Second, 36 * time.Second, 44 * time.Second} { // of a minute
		t.Run(ends.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, "slow", "first", "second")
				s.configs["b1"].Tasks[2].After = []string{"first"}
				h, p := s.pace(func(task string) time.Duration {
					switch task {
					case "slow":
						return time.Hour
					case "first":
						return ends
					}
					return time.Second
				})
				began := time.Now()
				if _, err := s.invoke(h, due); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("the invocation took %s", took)
				}
				if run := s.run("slow"); run.State != state.RunInterrupted {
					t.Errorf("the run that takes too long is %s %s", run.State, run.Error)
				}
				if n, early := len(p.began["second"]), ends < 35*time.Second; early != (n == 1) {
					t.Errorf("the task after one that ended after %s began %d times", ends, n)
				}
				s.succeeded("first")

				next, _ := s.pace(func(string) time.Duration { return time.Second })
				if _, err := s.invoke(next, due); err != nil {
					t.Fatal(err)
				}
				s.succeeded("slow", "first", "second")
			})
		})
	}
}

func TestFinish_EachRunIsExecutedOnceAlsoIfAnswersOfTheStoreAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := fifty()
		s := newStack(t, names...)
		for n := 10; n < len(names); n++ {
			s.configs["b1"].Tasks[n].After = names[n%10 : n%10+1]
		}
		var outcomes atomic.Int32
		s.store = summary.Keep(&statetest.Faulty{Store: s.store, After: func(changes []state.Change) error {
			for _, c := range changes {
				if strings.HasPrefix(c.Key, "run/") && strings.Contains(string(c.Value), `"state":"succeeded"`) && outcomes.Add(1)%3 == 0 {
					return errors.New("the answer was lost")
				}
			}
			return nil
		}})
		h, p := s.pace(func(task string) time.Duration { return staggered(task) / 7 })
		if _, err := s.within(15*time.Minute, h, due); err != nil {
			t.Fatal(err)
		}
		s.succeeded(names...)
		for _, name := range names {
			if len(p.began[name]) != 1 {
				t.Errorf("%s was applied %d times", name, len(p.began[name]))
			}
		}
		if outcomes.Load() < 50 {
			t.Errorf("%d outcomes were written", outcomes.Load())
		}
	})
}

// A tick that fails while runs are under way does not stop what follows them.
func TestFinish_TicksAgainAfterOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "slow", "first", "second")
		s.configs["b1"].Tasks[2].After = []string{"first"}
		began, refused := time.Now(), new(atomic.Int32)
		s.store = summary.Keep(&statetest.Faulty{Store: s.store, Before: func(changes []state.Change) error {
			if since := time.Since(began); changes[0].Key == "lease/reconcile" && since > time.Second && since < 10*time.Second {
				refused.Add(1)
				return errors.New("the disk is full")
			}
			return nil
		}})
		h, p := s.pace(func(task string) time.Duration {
			if task == "slow" {
				return time.Minute
			}
			return 2 * time.Second
		})
		if _, err := s.within(10*time.Minute, h, due); err != nil {
			t.Fatal(err)
		}
		s.succeeded("slow", "first", "second")
		if len(p.began["second"]) != 1 || refused.Load() == 0 {
			t.Errorf("the second task began at %s, after the lease was refused %d times", p.began["second"], refused.Load())
		}
	})
}

func (s *stack) measuredTicks(want float64) {
	s.t.Helper()
	if ticks := s.measured()["Ticks"]; ticks != want {
		s.t.Errorf("%v ticks, want %v", ticks, want)
	}
}
