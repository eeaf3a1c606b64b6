package runner

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRun_OutputIsReadableWhileItGoesOn(t *testing.T) {
	b := newFixture(t, nil)
	b.Live = time.Millisecond
	var live string
	b.Driver = fake{apply: func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		fmt.Fprintln(out, "local_file.a: Creating...")
		for deadline := time.Now().Add(20 * time.Second); live == "" && time.Now().Before(deadline); {
			text, _ := state.LoadLog(ctx, b.store, "web", "r1")
			live = string(text)
		}
		return succeed(ctx, out)
	}}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live != "local_file.a: Creating...\n" {
		t.Errorf("while the run went on, the store held %q", live)
	}
	if text, err := state.LoadLog(t.Context(), b.store, "web", "r1"); err != nil || string(text) != live+"Apply complete!\n" {
		t.Errorf("in the end it holds %q (%v)", text, err)
	}
}

func TestRun_OutputIsWrittenAtABoundedRateAndOnlyIfNew(t *testing.T) {
	var count atomic.Int32
	counted := func(changes []state.Change) error {
		if writes(changes, "log/", "") {
			count.Add(1)
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, nil)
		b.store.Before = counted
		b.Live = 2 * time.Second
		b.Driver = fake{apply: func(ctx context.Context, out io.Writer) (*state.Changes, error) {
			for i := range 600 { // for a minute
				fmt.Fprintln(out, "line", i)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(3 * time.Second)
			busy := count.Load()
			if busy < 25 || busy > 31 {
				t.Errorf("a minute of output took %d writes", busy)
			}
			time.Sleep(time.Minute)
			if n := count.Load() - busy; n != 0 {
				t.Errorf("a minute without output took %d writes", n)
			}
			return succeed(ctx, out)
		}}
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRun_OutputOfALostRunIsKept(t *testing.T) {
	b := newFixture(t, nil)
	b.Live, b.Claim = time.Millisecond, 30*time.Millisecond
	b.Driver = fake{apply: func(ctx context.Context, out io.Writer) (*state.Changes, error) {
		fmt.Fprintln(out, "local_file.a: Creating...")
		for text := ""; text == "" && ctx.Err() == nil; {
			got, _ := state.LoadLog(ctx, b.store, "web", "r1")
			text = string(got)
		}
		b.giveUp("r1")
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("the run ended with %v", err)
	}
	if text, err := state.LoadLog(t.Context(), b.store, "web", "r1"); err != nil || string(text) != "local_file.a: Creating...\n" {
		t.Errorf("the output of the lost run is %q (%v)", text, err)
	}
}

func TestRun_WithoutOutputLeavesNoLog(t *testing.T) {
	b := newFixture(t, fail)
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if recs, err := b.store.List(t.Context(), "log/"); err != nil || len(recs) != 0 {
		t.Errorf("%d records of output (%v)", len(recs), err)
	}
}

// slowBucket keeps output outside of the store. Writes of one name take forever.
type slowBucket struct{ slow string }

func (b slowBucket) Save(ctx context.Context, _, name string, _ []byte, _ time.Time) (string, error) {
	if name == b.slow {
		<-ctx.Done()
	}
	return "s3://logs/" + name, ctx.Err()
}

// What is kept for people is written at the same time: the outcome is recorded in time, with all but the slow write.
func TestRun_SlowWriteForPeopleTakesTheTimeOfNoOther(t *testing.T) {
	lost := map[string]string{"r1": "the output of a run was not kept", "r1-plan": "part=plan ", "r1-plan-data": "part=plan-data "}
	for slow := range lost {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFixture(t, nil)
				b.Logs = slowBucket{slow}
				b.Driver = readOnly{plan: driver.Plan{Changes: &state.Changes{Destroy: 1}, Text: "1 to destroy",
					Resources: []driver.ResourceChange{{Address: "a.b", Type: "a", Action: driver.Delete}}}}
				b.intendKind(state.KindPlan)
				began := time.Now()
				if err := b.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > b.Patience/2 {
					t.Errorf("the outcome was recorded after %s", took)
				}
				run := b.stored("r1")
				if run.State != state.RunSucceeded {
					t.Fatalf("the run is %+v", run)
				}
				for name, kept := range map[string]state.Kept{"r1": run.Output, "r1-plan": run.Plan, "r1-plan-data": run.PlanData} {
					want := state.Kept{}
					if name != slow {
						want.URL = "s3://logs/" + name
					}
					if kept != want {
						t.Errorf("%s is %+v, want %+v", name, kept, want)
					}
					if said := strings.Contains(b.log.String(), lost[name]); said != (name == slow) {
						t.Errorf("the log says that %s is lost: %v\n%s", name, said, b.log)
					}
				}
			})
		})
	}
}
