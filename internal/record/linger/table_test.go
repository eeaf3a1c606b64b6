package linger_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

var errStore = errors.New("the store does not answer")

// table is a store in memory that checks every write: sqlite cannot be used in a bubble of synctest.
type table struct {
	t *testing.T
	// around is called for each request and may wait, lose the request (lost before) or its answer
	// (lost after).
	around func(ctx context.Context) (before, after error)

	mu      sync.Mutex
	records map[string]state.Record
	version int
}

func newTable(t *testing.T) *table {
	return &table{t: t, records: map[string]state.Record{}, around: func(context.Context) (before, after error) { return nil, nil }}
}

var _ state.Store = (*table)(nil)

func (s *table) Get(ctx context.Context, key string) (state.Record, error) {
	if before, after := s.around(ctx); before != nil || after != nil {
		return state.Record{}, errors.Join(before, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec, ok := s.records[key]; ok {
		return rec, nil
	}
	return state.Record{}, state.ErrNotFound
}

func (s *table) List(ctx context.Context, prefix string) (all []state.Record, err error) {
	if before, after := s.around(ctx); before != nil || after != nil {
		return nil, errors.Join(before, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, rec := range s.records {
		if strings.HasPrefix(key, prefix) {
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

func (s *table) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := state.Validate(changes...); err != nil {
		return nil, err
	}
	before, after := s.around(ctx)
	if before != nil {
		return nil, before
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if err := c.Conflict(s.records[c.Key]); err != nil {
			return nil, err
		}
	}
	s.version++
	written := make([]state.Record, len(changes))
	for i, c := range changes {
		s.check(c)
		switch c.Op {
		case state.OpDelete:
			delete(s.records, c.Key)
		case state.OpCreate, state.OpReplace:
			written[i] = state.Record{Key: c.Key, Value: c.Value, Version: strconv.Itoa(s.version)}
			s.records[c.Key] = written[i]
		}
	}
	return written, after
}

func (s *table) Close() error { return nil }

// check reports writes that the protocol does not have.
func (s *table) check(c state.Change) {
	if c.Op == state.OpDelete {
		return
	}
	if c.Expires.IsZero() {
		s.t.Errorf("%s is kept for ever", c.Key)
	}
	rec := state.Record{Key: c.Key, Value: c.Value}
	if strings.HasPrefix(c.Key, state.RunnerPrefix) {
		runner, err := state.Decode[state.Runner](rec)
		if err != nil || runner.Data.Offer != "" && runner.Data.Launch != "" {
			s.t.Errorf("%s reads %+v (%v)", c.Key, runner.Data, err)
		}
		return
	}
	next, err := state.Decode[state.Launch](rec)
	if err != nil {
		s.t.Errorf("%s: %v", c.Key, err)
	}
	if was, ok := s.records[c.Key]; ok {
		if last, err := state.Decode[state.Launch](was); err != nil || last.Data.Taker != "" || next.Data.Taker == "" {
			s.t.Errorf("the taker of %s changes from %q to %q (%v)", c.Key, last.Data.Taker, next.Data.Taker, err)
		}
	}
}

// launch returns a launch's record; it has no ID if there is none.
func (s *table) launch(id string) state.Launch {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, ok := s.records[state.LaunchKey(id)]
	if !ok {
		return state.Launch{}
	}
	launch, err := state.Decode[state.Launch](rec)
	if err != nil {
		s.t.Errorf("launch %s: %v", id, err)
	}
	return launch.Data
}

// runner returns the record of a runner; nil if there is none.
func (s *table) runner(id string) *state.Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, ok := s.records[state.RunnerKey(id)]
	if !ok {
		return nil
	}
	runner, err := state.Decode[state.Runner](rec)
	if err != nil {
		s.t.Errorf("runner %s: %v", id, err)
	}
	return &runner.Data
}
