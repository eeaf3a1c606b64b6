package simulate

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// outcome is what came of a history.
type outcome struct {
	broken  string
	settled time.Duration // for all to be applied after the faults
	applies int
	took    int // open launches that instances of a cluster took
	begun   int // open launches that the leader began itself
	kept    int // states that the backend did not take, and that such instances keep
	home    home
	events  uint64
}

// history makes the history of a seed.
func history(t *testing.T, seed uint64, trace func(string, ...any)) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 4711)), faults: true, names: map[string]string{}, states: map[string]*tfstate{}, trace: trace}
		w.mu.Lock()
		w.weather = w.drawWeather()
		if w.home = []home{inAWS, inAWS, oneMachine, inCluster}[w.rng.IntN(4)]; w.weather.storm {
			w.home = inAWS
		}
		if w.weather.frost {
			w.home = inCluster
		} else if w.home != inAWS {
			w.weather.freezes = []int{0, 300, 1000}[w.rng.IntN(3)]
		}
		w.drawUnsaved(seed)
		w.drawLingering(seed)
		w.memory.init()
		w.consul.init()
		w.ecs.init()
		w.judge.init()
		if documents := seed >= documentSeeds && seed < remoteSeeds; documents {
			w.consul.drawDocuments(w)
			w.pointer = w.firstBundle()
			w.judge.pushes[0] = bundles[w.pointer].digest
		}
		if w.remote = seed >= remoteSeeds; w.remote {
			w.lingers, w.deployed = false, deployment{} // there are no containers
			w.third = seed >= thirdSeeds
			w.pointer = w.firstBundle()
			w.judge.pushes[0] = bundles[w.pointer].digest
			w.drawRemote(seed)
		}
		w.fleet = seed >= fleetSeeds && seed < crossingSeeds
		if w.ordered = seed >= orderSeeds && seed < fleetSeeds || seed >= remoteOrderSeeds && seed < thirdSeeds; w.ordered {
			w.pointer = w.firstBundle()
			w.judge.pushes[0] = bundles[w.pointer].digest
			w.unverifies = seed%2 == 0
		}
		if w.ruled = seed%3 == 0 && !w.fleet; w.ruled {
			w.pointer += withoutRules
			w.judge.pushes[0] = bundles[w.pointer].digest
			w.consul.fill(w)
			w.weather.replaces = []int{0, 3, 10, 30}[w.rng.IntN(4)]
		}
		if w.removes = seed%removalEvery == removalFirst && !w.fleet; w.removes {
			w.ruled, w.pointer = true, w.firstBundle()+withRemoval
			w.judge.pushes[0] = bundles[w.pointer].digest
			w.consul.fill(w)
		}
		w.drawShrinking(seed)
		w.drawPartly(seed)
		w.drawPauses(seed)
		if w.crosses = seed >= crossingSeeds && seed < documentSeeds; w.crosses {
			w.drawCrossings()
		}
		if w.fleet {
			w.drawFleet()
		}
		w.spoils = seed%spoiltEvery == spoiltFirst
		steps := 50 + w.rng.IntN(350)
		if w.lingers { // a launch has ended before another one is offered
			steps *= 2
		}
		if w.fleet { // a tenth of the tasks has run
			steps *= 10
		}
		if w.remote || w.crosses { // a run has several steps, and what meets takes several runs
			steps *= 3
		}
		if w.shrinks { // several steps within a window
			steps *= 4
		}
		if w.weather.long { // what takes many things to come together
			steps *= 4
		}
		if w.crosses || w.partly {
			w.applyAll()
		}
		if w.partly {
			w.judge.shown = w.consul.identity()
			w.consul.replace(w)
		}
		for range steps {
			if w.step(); w.broken != "" {
				break
			}
		}
		if w.broken == "" {
			out.settled = w.settle()
		}
		if w.broken == "" {
			w.outage(seed)
			w.requestEach(seed)
		}
		out.broken, out.applies, out.events, out.home = w.broken, w.applies, w.events, w.home
		out.took, out.begun, out.kept = w.judge.took, w.judge.begun, w.judge.unsaved
		w.end()
	})
	return out
}

// end kills the processes that are left, and gives them the time to notice.
func (w *world) end() {
	w.faults = false
	w.quiet()
	defer func() {
		w.mu.Unlock()
		time.Sleep(time.Hour)
	}()
	for _, f := range w.functions {
		f.kill("the end")
	}
	for _, c := range w.ecs.containers {
		if c.process != nil {
			c.kill("the end")
		}
	}
	for _, i := range w.instances {
		i.kill("the end")
	}
	w.ecs.killSettling()
	w.killPeople()
}
