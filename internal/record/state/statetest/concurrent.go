package statetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Increment adds 1 to the counter at key, by compare-and-swap, n times.
func Increment(ctx context.Context, s state.Store, key string, n int) error {
	for range n {
		for done := false; !done; {
			r, err := s.Get(ctx, key)
			if err != nil {
				return err
			}
			count, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return err
			}
			_, err = s.Apply(ctx, state.Replace(r, []byte(strconv.Itoa(count+1))))
			var refused *state.ConflictError
			if err != nil && !errors.As(err, &refused) {
				return err
			}
			done = err == nil
		}
	}
	return nil
}

func increments(t *testing.T, open func() state.Store) {
	handles := []state.Store{open(), open()}
	create(t, handles[0], "counter/a", "0")
	const workers, each = 8, 10
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			if err := Increment(context.Background(), handles[i%2], "counter/a", each); err != nil {
				t.Errorf("increment: %v", err)
			}
		})
	}
	wg.Wait()
	r, err := handles[0].Get(context.Background(), "counter/a")
	if err != nil || string(r.Value) != strconv.Itoa(workers*each) {
		t.Errorf("the counter is %s, %v; want %d", r.Value, err, workers*each)
	}
}

func creators(t *testing.T, open func() state.Store) {
	handles := []state.Store{open(), open()}
	const workers = 8
	won := make([]*state.Record, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			records, err := handles[i%2].Apply(context.Background(), state.Create("task/a", []byte{byte(i)}))
			var refused *state.ConflictError
			switch {
			case err == nil:
				won[i] = &records[0]
			case !errors.As(err, &refused) || refused.Current == nil:
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	won = slices.DeleteFunc(won, func(r *state.Record) bool { return r == nil })
	if len(won) != 1 {
		t.Fatalf("%d of %d created the record", len(won), workers)
	}
	expect(t, handles[0], *won[0])
}
