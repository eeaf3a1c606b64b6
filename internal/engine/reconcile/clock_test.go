package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A clock that is ahead for a while must not block anything for as long, such as
// a hardware clock in local time until NTP has answered.
const ahead = 6 * time.Hour

// correct sets the clock right, a minute after it went wrong.
func (b *bench) correct(right time.Time) {
	b.now = right.Add(time.Minute)
	b.launcher.forget()
}

// until ticks every minute until something has happened, and returns how long
// that took.
func (b *bench) until(happened func() bool) (waited time.Duration) {
	b.t.Helper()
	for waited = 0; waited < ahead+time.Hour; waited += time.Minute {
		b.now = b.now.Add(time.Minute)
		if b.tick(); happened() {
			break
		}
	}
	return waited
}

func (b *bench) hasLaunched() bool { return len(b.launcher.launches()) > 0 }

func TestTick_FailedTaskIsRetriedAfterClockWasAhead(t *testing.T) {
	b := newBench(t, tasks(1)...)
	right := b.now
	b.now = right.Add(ahead)
	b.tick()
	b.end(state.RunFailed, "")
	b.correct(right)
	if waited := b.until(b.hasLaunched); waited > refreshEvery+time.Minute {
		t.Errorf("the task was retried after %s", waited)
	}
}

func TestTick_ViewsAreRefreshedAfterClockWasAhead(t *testing.T) {
	b := newBench(t, tasks(1)...)
	right := b.now
	b.now = right.Add(ahead)
	b.settle()
	b.correct(right)
	reads := b.catalog.reads
	if waited := b.until(func() bool { return b.catalog.reads > reads }); waited > refreshEvery {
		t.Errorf("the views were read after %s", waited)
	}
}

func TestTick_TickThatTakesLongDoesNotCountAsAReadOfEveryView(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.settle()
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(refreshEvery - time.Minute)
	b.catalog.reads, b.catalog.after = 0, func(*catalog) { b.now = b.now.Add(2 * time.Minute) }
	b.must(b.Tick(t.Context(), TickOptions{Ended: true}))
	if b.catalog.reads != 1 {
		t.Fatalf("%d views were read after the end of a run", b.catalog.reads)
	}
	b.catalog.reads, b.catalog.after = 0, nil
	b.tick()
	if b.catalog.reads != 2 {
		t.Errorf("%d of 2 views were read", b.catalog.reads)
	}
}

func TestTick_LeaseIsTakenOverAfterClockWasAhead(t *testing.T) {
	b := newBench(t, tasks(1)...)
	right := b.now
	b.now = right.Add(ahead)
	if _, err := b.acquire(t.Context()); err != nil { // and the process is killed
		t.Fatal(err)
	}
	b.correct(right)
	_, err := b.another(b.Config.Tasks).acquire(t.Context())
	if held := new(lease.HeldError); errors.As(err, &held) {
		t.Errorf("the lease is held for another %s, and lasts %s", held.Until.Sub(b.now), b.LeaseTTL)
	}
}

func TestTick_ClaimEndsAfterClockWasAhead(t *testing.T) {
	b := newBench(t, tasks(1)...)
	right := b.now
	b.now = right.Add(ahead)
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	b.claimed(run, "host-1")
	b.launcher.forget()
	b.correct(right)
	if _, err := b.Tick(t.Context(), TickOptions{Ended: true}); err != nil {
		t.Fatal(err)
	}
	// A runner that lives renews its claim within this time.
	if got := b.run(run).Data; got.State != state.RunRunning || !got.Expires.Equal(b.now.Add(got.ClaimFor)) {
		t.Fatalf("the run reads %+v at %s", got, b.now)
	}
	if waited := b.until(b.hasLaunched); waited > 2*time.Minute {
		t.Errorf("the task has its next run after %s", waited)
	}
}

func TestTick_IntentIsGivenUpAfterClockWasAhead(t *testing.T) {
	b := newBench(t, tasks(1)...)
	right := b.now
	b.now = right.Add(ahead)
	b.tick()
	run := b.launcher.launches()[0].Runs[0]
	b.correct(right)
	b.until(func() bool { return b.run(run).Data.State == state.RunLost })
	if got := b.now.Sub(right); got > refreshEvery+2*time.Minute {
		t.Errorf("the intent was given up after %s", got)
	}
}
