package simulate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// In histories from fleetSeeds on, a deployment in AWS has hundreds of tasks, each with a service of its
// own: they queue, and a tick reads the records of few of them. The second bundle has another module for
// some, lacks some, and has others instead.

const (
	// fleetSeeds is the first seed of such histories.
	fleetSeeds = crossingSeeds / 2
	fleetTasks = 500
	// fleetBundles is how many bundles they have.
	fleetBundles = 2
)

// withFleets is the first of the bundles of such histories.
var withFleets = withShrinking - fleetBundles

// fleetNames are the tasks of such histories, and their services.
var fleetNames = func() []string {
	names := make([]string, fleetTasks+fleetTasks/50)
	for i := range names {
		names[i] = fmt.Sprintf("switch-%03d", i)
	}
	return names
}()

// forFleets are bundles with many tasks.
func forFleets() []bundle {
	var all []config.Task
	for _, name := range fleetNames {
		all = append(all, config.Task{Name: name, Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}})
	}
	other := slices.Clone(all[len(all)-fleetTasks:])
	for i := range other {
		if i%25 == 0 {
			other[i].Module = "./other"
		}
	}
	return []bundle{
		{digest: "f0", config: &config.Config{KeepRemoved: keptRemoved, Tasks: all[:fleetTasks]}},
		{digest: "f1", config: &config.Config{KeepRemoved: keptRemoved, Tasks: other}},
	}
}

// drawFleet begins such a history.
func (w *world) drawFleet() {
	w.home, w.pointer = inAWS, withFleets
	w.weather.frost, w.weather.freezes = false, 0
	w.judge.pushes[0] = bundles[w.pointer].digest
	for _, name := range fleetNames {
		w.consul.digests[name], w.consul.before[name] = "d0", "d0"
	}
	w.consul.names = fleetNames
}

func TestNoHistoryOfAFleetBreaksWhatMustAlwaysHold(t *testing.T) {
	n := uint64(200) // 100,000 tasks
	switch {
	case *firstSeed >= crossingSeeds || *traced || *stride > 0:
		t.Skip("this seed alone is meant")
	case testing.Short():
		t.Skip("it takes long")
	case !testtools.All():
		n = 1
	}
	count := *histories
	defer func() { *histories = count }()
	if *atMost == 0 {
		*histories = n
	}
	simulates(t, fleetSeeds+*firstSeed)
}

// fleetRoom is how many more launches are under way at a time.
func (w *world) fleetRoom() int {
	if !w.fleet {
		return 0
	}
	return 4 + w.rng.IntN(5)
}
