package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// People see what differs also before the runner has read Consul.
func TestTick_RecordOfATaskKeepsWhatItsRunWasDecidedOn(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	if err := state.SaveInputs(t.Context(), b.store, "task-0", state.Inputs{Elements: map[string]string{"A": "1"}}); err != nil {
		t.Fatal(err)
	}
	b.catalog.set("B", nil)
	b.tick()
	want := &state.EntryChanges{Added: 1, Removed: 1, Entries: []state.EntryChange{
		{Action: state.EntryRemoved, Name: "A", Group: "service instances"}, {Action: state.EntryAdded, Name: "B", Group: "service instances"}}}
	task := b.task("task-0")
	if task.Run == nil || task.Pending != nil {
		t.Fatalf("the task has %+v, and %+v is pending", task.Run, task.Pending)
	}
	if diff := cmp.Diff(want, task.Run.Entries); diff != "" {
		t.Error(diff)
	}
}
