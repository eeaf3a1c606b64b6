package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestPlaces_ReadsOnlyTheRecordsOfTasksThatComeBefore(t *testing.T) {
	cfg := &config.Config{Tasks: tasks(100)}
	name := func(i int) string { return cfg.Tasks[i].Name }
	for i := 1; i < 3; i++ {
		cfg.Tasks[i].After = []string{name(i - 1)}
	}
	store := statetest.NewMemory()
	held := state.Task{Stops: state.Stops{OnHold: &state.OnHold{By: "mia", Comment: "maintenance"}}}
	if _, err := store.Apply(t.Context(), state.Create(state.TaskKey(name(0)), state.Encode(held)), state.Create(state.TaskKey(name(1)), []byte("{"))); err != nil {
		t.Fatal(err)
	}
	placesOf := func(of ...*config.Task) (*asked, []state.Place) {
		a := &asked{Store: store}
		places, err := Places(t.Context(), a, cfg, of, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return a, places
	}
	a, places := placesOf(&cfg.Tasks[2], &cfg.Tasks[50])
	if want := []string{name(0), name(1), name(2)}; !slices.Equal(a.tasksRead(), want) {
		t.Errorf("read the records of %v, want %v", a.tasksRead(), want)
	}
	keeps := map[string]string{}
	for _, p := range places {
		keeps[p.Tasks[0]] = p.Keeps
	}
	if !strings.Contains(keeps[name(0)], "maintenance") || !strings.Contains(keeps[name(1)], "is not what Terrapulse writes") || keeps[name(2)] != "" {
		t.Errorf("the tasks keep others waiting because of %q", keeps)
	}
	if a, places := placesOf(&cfg.Tasks[50]); len(a.reads) > 0 || places != nil {
		t.Errorf("without an order: %v, %v", a.reads, places)
	}
	for i := 3; i < 100; i++ {
		cfg.Tasks[i].After = []string{name(i - 1)}
	}
	cfg = &config.Config{Tasks: cfg.Tasks}
	a, places = placesOf(&cfg.Tasks[99])
	if !slices.Equal(a.tasksRead(), []string{"all"}) || !strings.Contains(places[0].Keeps, "maintenance") {
		t.Errorf("of all tasks read %v: %+v", a.tasksRead(), places[0])
	}
}
