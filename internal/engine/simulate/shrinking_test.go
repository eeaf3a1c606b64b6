package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In every fifteenth history, services shrink in steps, each of which the guard permits alone: one
// begins when the last one is applied. The configuration changes between two windows, and a guard is
// turned off and on. The judge (window_judge_test.go) knows what was applied within the window.

const (
	shrinkEvery = 15 // histories
	shrinkFirst = 12
	// shrinkingBundles is how many bundles they have, for Terraform and for HCP Terraform.
	shrinkingBundles = 2
)

// withShrinking is the first of the bundles of such histories.
var withShrinking = withPartly - 2*shrinkingBundles

// forShrinking are bundles whose tasks have guards, and nothing else that holds a plan.
func forShrinking(plain bundle) []bundle {
	most := 8
	guarded, limited, short := guard.Default, guard.Default, guard.Default
	limited.MaxDestroy, limited.MaxRemovedPercent = &most, 100
	short.Within = 5 * time.Minute
	of := func(guards ...guard.Spec) *config.Config {
		rules := make([]config.Rules, len(guards))
		for i, g := range guards {
			rules[i] = config.Rules{Guard: g, Approval: approval.Default}
		}
		return &config.Config{KeepRemoved: keptRemoved, Tasks: ruled(plain.config.Tasks, rules...)}
	}
	return []bundle{
		{digest: "s-0", config: of(guarded, limited, guarded)},
		{digest: "s-1", config: of(short, limited, guard.Spec{})},
	}
}

// drawShrinking prepares such a history.
func (w *world) drawShrinking(seed uint64) {
	plain := seed < orderSeeds || w.remote && !w.third && !w.ordered
	if w.shrinks = w.ruled && plain && !w.removes && seed%shrinkEvery == shrinkFirst; !w.shrinks {
		return
	}
	w.pointer = w.someBundle()
	w.judge.pushes[0] = bundles[w.pointer].digest
	w.weather.replaces = []int{0, 0, 0, 3}[w.rng.IntN(4)]
	w.calm()
	w.consul.names = []string{"web", "api", "db"}
	for _, service := range services {
		w.consul.digests[service] = fmt.Sprintf("d0.%d", 30+w.rng.IntN(20))
		w.consul.found(service)
	}
}

// calm has fewer faults, so that many runs are applied one after the other.
func (w *world) calm() {
	t := &w.weather
	t.people, t.ops, t.unread, t.stale, t.slow, t.unsaved = min(t.people, 5), map[string]int{}, min(t.unread, 50), 0, min(t.slow, 50), 0
	t.storm, t.frost = false, false
	for n := range t.dies {
		t.dies[n] = min(t.dies[n], 2)
	}
	for p := range places {
		t.refused[p], t.lost[p], t.late[p] = min(t.refused[p], 20), min(t.lost[p], 20), min(t.late[p], 10)
	}
	if w.home == inAWS && !w.remote && w.rng.IntN(3) > 0 { // there, a run takes many steps
		w.home = oneMachine
	}
}

// attention is how often people decide something, in thousandths of the steps: where services shrink,
// they approve what waits before the window has passed.
func (w *world) attention() int {
	if w.shrinks && slices.ContainsFunc(w.consul.names, func(task string) bool {
		record := w.judge.tasks[task]
		return record.Waits() != nil && record.Run.Resume == nil
	}) {
		return 200
	}
	return 30
}

// settled reports whether a service should rather stay as it is, until that is applied or waits.
func (w *world) settled(service string) bool {
	record := w.judge.tasks[service]
	return record.Applied.Digest == w.consul.digests[service] || record.Waits() != nil || w.rng.IntN(6) == 0
}

// shrunk draws what a service has next: mostly a part of what was applied last is gone.
func (w *world) shrunk(service string) string {
	r := &w.judge.rules
	applied := len(r.did[service][r.counted(service)].entries)
	switch n := w.rng.IntN(20); {
	case applied < 5 || n < 2:
		return fmt.Sprintf("d%d.%d", w.rng.IntN(2), 12+w.rng.IntN(30))
	case n < 4: // more at once than is permitted
		return fmt.Sprintf("d0.%d", applied*(10+w.rng.IntN(38))/100)
	}
	return fmt.Sprintf("d0.%d", applied-max(1, applied*(5+w.rng.IntN(42))/100))
}
