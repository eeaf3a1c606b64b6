package linger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Leaders offer launches, die, and others go on with what they left, also at the same time and
// without a lease. Runners linger, take launches, freeze, die and are stopped. Requests take long, fail, and
// lose their answers. Clocks are apart. In the end, each launch must have one taker: a runner that
// took it once, or a container.
func TestLinger_AnyHistoryHasOneTakerForEachLaunch(t *testing.T) {
	histories := 400
	if testing.Short() {
		histories = 60
	}
	var all counts
	for seed := range histories {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t, uint64(seed))
			h.run()
			all.taken, all.withdrawn, all.direct = all.taken+h.taken, all.withdrawn+h.withdrawn, all.direct+h.direct
		})
		if t.Failed() {
			t.Fatalf("history %d", seed)
		}
	}
	if min(all.taken, all.withdrawn, all.direct) < histories/10 {
		t.Errorf("the histories are one-sided: %+v", all)
	}
}

// counts are launches.
type counts struct{ taken, withdrawn, direct int }

type history struct {
	t  *testing.T
	s  *table
	mu sync.Mutex
	counts

	rng        *rand.Rand
	faults     bool
	launches   []string
	tookBy     map[string][]string // runners, by the launches that they took
	containers map[string]bool     // launches for which a container was started
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, s: newTable(t), rng: rand.New(rand.NewPCG(seed, 1)), faults: true, tookBy: map[string][]string{}, containers: map[string]bool{}}
	h.s.around = h.weather
	return h
}

func (h *history) n(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

// weather makes requests slow, and some fail.
func (h *history) weather(ctx context.Context) (before, after error) {
	late := time.Duration(1+h.n(40)) * time.Millisecond
	if h.faults && h.n(40) == 0 {
		late = time.Duration(h.n(9000)) * time.Millisecond
	}
	time.Sleep(late)
	switch {
	case ctx.Err() != nil && h.n(2) == 0: // the process is gone; its request may arrive
		return nil, ctx.Err()
	case ctx.Err() != nil:
		return ctx.Err(), nil
	case h.faults && h.n(25) == 0:
		return errStore, nil
	case h.faults && h.n(25) == 0:
		return nil, errStore
	}
	return nil, nil
}

// offers are those of a leader, whose clock is apart.
func (h *history) offers() *linger.Offers {
	o := newOffers(h.s)
	o.Skew = 30 * time.Second
	apart := time.Duration(h.n(60)-30) * time.Second
	o.Now = func() time.Time { return time.Now().Add(apart) }
	return o
}

// lead makes launches. Its process dies at some time.
func (h *history) lead(name string) {
	ctx, die := context.WithTimeout(h.t.Context(), time.Duration(h.n(40))*time.Second)
	defer die()
	for i := 0; ctx.Err() == nil; i++ {
		o := h.offers()
		id := fmt.Sprintf("%s-%d", name, i)
		runner := o.Next(ctx)
		launch := state.Launch{ID: id, Kind: state.KindApply, Created: o.Now(), Offer: runner.Data.ID}
		changes := []state.Change{state.Create(state.LaunchKey(id), state.Encode(launch)).Until(launch.KeptUntil())}
		if runner.Exists() {
			changes = append(changes, linger.Write(runner, id))
		}
		h.mu.Lock()
		h.launches = append(h.launches, id)
		h.mu.Unlock()
		if _, err := o.Apply(ctx, changes...); err == nil {
			h.place(ctx, o, id)
		}
		time.Sleep(time.Duration(h.n(5000)) * time.Millisecond)
	}
}

// place does what a leader does with a launch that is written.
func (h *history) place(ctx context.Context, o *linger.Offers, id string) bool {
	launch, err := state.Read[state.Launch](ctx, h.s, state.LaunchKey(id))
	if err != nil || !launch.Exists() {
		return err == nil
	}
	taker := launch.Data.Taker
	if launch.Data.Offered() {
		if taker, err = o.Place(ctx, launch.Data); err != nil {
			return false
		}
	}
	if taker != "" && taker != state.TakenByContainer {
		return true
	}
	if ctx.Err() != nil {
		return false // dead before RunTask
	}
	if h.s.launch(id).TakenByRunner() {
		h.t.Errorf("a container is started for %s, which %s has", id, h.s.launch(id).Taker)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.containers[id] = true
	return true
}

// linger is a container that has ended its launch.
func (h *history) linger(id string) {
	ctx, die := context.WithTimeout(h.t.Context(), time.Duration(h.n(90))*time.Second)
	defer die()
	apart := time.Duration(h.n(60)-30) * time.Second
	r := newRunner(h.s, id)
	r.Now = func() time.Time { return time.Now().Add(apart) }
	for {
		launch, ok := r.Next(ctx, r.Now().Add(time.Duration(h.n(30))*time.Second))
		if !ok {
			return
		}
		if got := h.s.launch(launch.ID); got.Taker != id {
			h.t.Errorf("%s works on %s, whose taker is %q", id, launch.ID, got.Taker)
		}
		h.mu.Lock()
		h.tookBy[launch.ID] = append(h.tookBy[launch.ID], id)
		h.mu.Unlock()
		time.Sleep(time.Duration(h.n(4000)) * time.Millisecond)
		if h.n(10) == 0 {
			return // a run has failed
		}
	}
}

func (h *history) run() {
	var work sync.WaitGroup
	for i := range 1 + h.n(2) {
		work.Go(func() {
			time.Sleep(time.Duration(h.n(20)) * time.Second)
			h.lead(fmt.Sprintf("l%d", i))
		})
	}
	for i := range 1 + h.n(3) {
		work.Go(func() {
			time.Sleep(time.Duration(h.n(20)) * time.Second)
			h.linger(fmt.Sprintf("r%d", i))
		})
	}
	work.Go(func() { // another leader goes on with what it finds, at any time
		for range 10 {
			time.Sleep(time.Duration(h.n(10)) * time.Second)
			h.mu.Lock()
			all := append([]string(nil), h.launches...)
			h.mu.Unlock()
			for _, id := range all {
				h.place(h.t.Context(), h.offers(), id)
			}
		}
	})
	work.Wait()
	h.faults = false
	for _, id := range h.launches {
		if !h.place(h.t.Context(), h.offers(), id) {
			h.t.Errorf("%s has no taker in the end", id)
		}
		launch := h.s.launch(id)
		switch took := h.tookBy[id]; {
		case launch.ID == "": // never written
		case launch.Offer == "":
			h.direct++
		case launch.Taker == state.TakenByContainer:
			h.withdrawn++
		default:
			h.taken++
			if len(took) > 1 || len(took) == 1 && took[0] != launch.Offer {
				h.t.Errorf("%s, which was offered to %s, was taken by %v", id, launch.Offer, took)
			}
		}
		if launch.ID != "" && h.containers[id] == launch.TakenByRunner() {
			h.t.Errorf("%s has the taker %q, and a container %v", id, launch.Taker, h.containers[id])
		}
	}
}
