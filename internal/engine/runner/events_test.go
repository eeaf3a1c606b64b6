package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/outbox/outboxtest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// told is a sink.
type told []outbox.Event

func (*told) Name() string { return "told" }

func (all *told) Deliver(_ context.Context, e outbox.Event) error {
	*all = append(*all, e)
	return nil
}

// events delivers the events in the store.
func (b *fixture) events(sinks ...outbox.Sink) (all told) {
	b.t.Helper()
	done, err := outbox.Delivery{Store: b.store, Apply: b.store.Apply, Sinks: func() []outbox.Sink { return append(sinks, &all) }, Now: b.Now, Log: slog.New(slog.DiscardHandler)}.Run(b.t.Context())
	if err != nil || done.Left > 0 {
		b.t.Fatalf("%d events are left: %v", done.Left, err)
	}
	schemas := outboxtest.New(b.t)
	for _, e := range all {
		if err := schemas.CheckEvent(e); err != nil {
			b.t.Error(err)
		}
	}
	return all
}

func TestRun_OutcomeAndItsEventAreOneWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		apply applier
		want  outbox.Kind
		text  string
	}{
		"success": {succeed, outbox.RunSucceeded, ""},
		"failure": {fail, outbox.RunFailed, "module is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, tt.apply)
			b.store.Before = func(changes []state.Change) error {
				ends := writes(changes, "run/", `"ended":"2`)
				if ends != writes(changes, outbox.Prefix, "") || ends != writes(changes, "task/", "") {
					t.Errorf("the end of a run is not written with its event and its task: %v", changes)
				}
				return nil
			}
			if err := b.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.store.Before = nil
			all := b.events()
			if len(all) != 1 || all[0].Kind != tt.want || all[0].Run != "r1" || all[0].Launch != "l-r1" || all[0].Fence != 1 || all[0].Error != tt.text {
				t.Errorf("the events are %+v", all)
			}
			if all[0].Seq != b.task().Events || all[0].Seq == 0 {
				t.Errorf("event %d is the latest of the task, which has %d", all[0].Seq, b.task().Events)
			}
		})
	}
}

func TestRun_EventOfAnOutcomeWhoseAnswerWasLostIsThereOnce(t *testing.T) {
	b := newFixture(t, succeed)
	b.Said = new(outbox.Said)
	lost := 0
	b.store.After = func(changes []state.Change) error {
		if writes(changes, outbox.Prefix, "") && lost == 0 {
			lost++
			return errors.New("connection reset")
		}
		return nil
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := b.events(outbox.Log{To: b.Log, Said: b.Said}); len(all) != 1 || lost != 1 {
		t.Errorf("after %d lost answers the events are %+v", lost, all)
	}
	if n := strings.Count(b.log.String(), "run succeeded"); n != 1 {
		t.Errorf("the end of the run is logged %d times: %s", n, b.log)
	}
}

func TestRun_PlanIsLoggedAndNoEvent(t *testing.T) {
	b := newFixture(t, nil)
	b.Driver = fake{plan: succeed}
	launch := state.Launch{ID: "l2", Kind: state.KindPlan, Runs: b.planned("p1")}
	run := state.Run{ID: "p1", Task: "web", Kind: state.KindPlan, Launch: "l2", State: state.RunIntended, Created: noon}
	if _, err := b.store.Apply(t.Context(), state.Create(state.RunKey("web", "p1"), state.Encode(run)).Until(noon.Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context(), launch, launch.Runs[0]); err != nil {
		t.Fatal(err)
	}
	if all := b.events(); len(all) != 0 || !strings.Contains(b.log.String(), `msg="run succeeded" task=web run=p1 kind=plan`) {
		t.Errorf("the events are %+v, and the log says %s", all, b.log)
	}
}
