package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maker is a driver that says which resources a task has.
type maker struct {
	driver.Driver
	made []string // nil if it says nothing
	err  error
}

func (m *maker) Apply(context.Context, driver.Job) (driver.Outcome, error) {
	return driver.Outcome{Changes: &state.Changes{Change: 1}, Made: m.made}, m.err
}

func TestRun_RecordsWhichResourcesTheTaskHas(t *testing.T) {
	b := newFixture(t, succeed)
	m := &maker{}
	b.Driver = m
	for _, run := range []struct {
		id, from, types, text string
		made                  []string
		err                   error
	}{
		{id: "r1", made: []string{"b.y", "a.x"}, from: "r1", types: "a:1 b:1", text: "a.x\nb.y\n"},
		{id: "r2", from: "r1", types: "a:1 b:1", text: "a.x\nb.y\n"}, // the driver does not know, or nothing came or went
		{id: "r3", made: []string{"a.x"}, err: errors.New("broken"), from: "r3", types: "a:1", text: "a.x\n"},
		{id: "r4", made: []string{}, from: "r4", types: "0"},
	} {
		if run.id != "r1" {
			b.intendNext(run.id)
		}
		m.made, m.err = run.made, run.err
		_ = b.run(t.Context())
		made := b.task().Applied.Made
		if made == nil || made.Run != run.from || string(made.Types) != run.types {
			t.Fatalf("after run %s, the task has %+v\n%s", run.id, made, b.log)
		}
		if text, err := made.Addresses.Load(t.Context(), b.store, "web", nil); string(text) != run.text {
			t.Errorf("after run %s, these addresses are kept: %q, %v", run.id, text, err)
		}
		if of := b.stored(run.id).Made; (of == nil) != (run.made == nil) {
			t.Errorf("run %s has %+v", run.id, of)
		}
	}
}
