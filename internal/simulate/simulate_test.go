package simulate

import (
	"slices"
	"testing"
	"time"
)

func TestOne(t *testing.T) {
	var took []time.Duration
	applies := 0
	for seed := range uint64(3000) {
		out := history(t, seed, nil)
		if out.broken != "" {
			t.Errorf("seed %d: %s", seed, out.broken)
		}
		took = append(took, out.took)
		applies += out.applies
	}
	slices.Sort(took)
	t.Log(applies, took[1500], took[2900], took[2999])
}

func TestRepeat(t *testing.T) {
	bad := 0
	for seed := range uint64(2000) {
		a, b := history(t, seed, nil), history(t, seed, nil)
		if a.events != b.events {
			bad++
			if bad == 1 {
				t.Errorf("seed %d differs", seed)
			}
		}
	}
	t.Log(bad)
}
