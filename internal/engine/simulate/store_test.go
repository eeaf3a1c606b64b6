package simulate

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// memory is the table. Only the scheduler touches it.
type memory struct {
	records map[string]state.Record
	expires map[string]time.Time
	version int
	changed map[string]int // the versions that last changed records, by key
	waiters []*waiter
}

func (m *memory) init() {
	m.records, m.expires = map[string]state.Record{}, map[string]time.Time{}
	m.changed = map[string]int{}
}

func (m *memory) list(prefix string) []state.Record {
	var list []state.Record
	for key, rec := range m.records {
		if strings.HasPrefix(key, prefix) {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (m *memory) apply(changes []state.Change) ([]state.Record, error) {
	for _, c := range changes {
		switch current, there := m.records[c.Key]; {
		case there && (c.Op == state.OpCreate || c.Version != current.Version):
			return nil, &state.ConflictError{Change: c, Current: &current}
		case !there && c.Op != state.OpCreate:
			return nil, &state.ConflictError{Change: c}
		}
	}
	m.version++
	written := make([]state.Record, len(changes))
	for i, c := range changes {
		if c.Op == state.OpCheck {
			continue
		}
		m.change(c.Key)
		delete(m.expires, c.Key)
		if c.Op == state.OpDelete {
			delete(m.records, c.Key)
			continue
		}
		written[i] = state.Record{Key: c.Key, Value: c.Value, Version: strconv.Itoa(m.version)}
		m.records[c.Key] = written[i]
		if !c.Expires.IsZero() {
			m.expires[c.Key] = c.Expires
		}
	}
	return written, nil
}

// expire removes what is garbage: days late, or at once.
func (m *memory) expire(w *world) {
	now := time.Now()
	if len(m.expires) == 0 || !w.chance(300) {
		return
	}
	for key, end := range m.expires {
		if end.Before(now) {
			delete(m.records, key)
			delete(m.expires, key)
		}
	}
}

// view is the table as a process sees it.
type view struct {
	*process
	act  *act // on whose behalf
	knew int  // act.paused as of a write, which may be late
}

var _ state.Store = view{}

// Get implements state.Store.
func (v view) Get(ctx context.Context, key string) (rec state.Record, err error) {
	if err := state.ValidateKey(key); err != nil {
		return state.Record{}, err
	}
	defer func() { v.unremoved(err, key) }()
	return ask(ctx, v.process, store, "get "+key, func() (state.Record, error) {
		rec, ok := v.memory.records[key]
		if key == state.ReconcileKey && v.act != nil { // a run of the same process reads for itself
			v.act.paused = v.judge.pause()
		}
		if !ok {
			return rec, state.ErrNotFound
		}
		return rec, nil
	})
}

// List implements state.Store. It is no snapshot: what lies in its second half
// may be newer than what lies in the first.
func (v view) List(ctx context.Context, prefix string) (all []state.Record, err error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	defer func() { v.unremoved(err, prefix) }()
	var half string
	first, err := ask(ctx, v.process, store, "list "+prefix, func() ([]state.Record, error) {
		v.readsRunners(prefix)
		list := v.memory.list(prefix)
		if len(list) > 1 && v.chance(v.weather.torn) {
			half = list[len(list)/2].Key
			list = list[:len(list)/2]
		}
		return list, nil
	})
	if err != nil || half == "" {
		return first, err
	}
	second, err := ask(ctx, v.process, store, "list the rest of "+prefix, func() ([]state.Record, error) {
		list := v.memory.list(prefix)
		return slices.DeleteFunc(list, func(rec state.Record) bool { return rec.Key < half }), nil
	})
	return append(first, second...), err
}

// Apply implements state.Store.
func (v view) Apply(ctx context.Context, changes ...state.Change) (written []state.Record, err error) {
	if err := state.Validate(changes...); err != nil {
		return nil, err
	}
	defer func() { v.unremoved(err, changes[0].Key) }()
	label, renewal := "write", true
	for _, c := range changes {
		renewal = renewal && strings.HasPrefix(c.Key, "lease/")
		if c.Op == state.OpDelete {
			label += " without"
		}
		if c.Op != state.OpCheck {
			label += " " + c.Key
		}
	}
	switch {
	case renewal:
		label = "lead: " + label
	case len(changes) == 1 && strings.HasPrefix(changes[0].Key, "run/"):
		label = "claim: " + label
	}
	var unread map[string]bool    // as of now: the write may be late
	if v.act != nil && !renewal { // which goes on beside the tick
		unread, v.knew = v.act.unread, v.act.paused
	}
	return ask(ctx, v.process, store, label, func() ([]state.Record, error) {
		written, err := v.memory.apply(changes)
		if err != nil {
			v.note("    conflict: %s", err.(*state.ConflictError).Change.Key)
			return nil, err
		}
		v.judge.written(v, unread, changes)
		return written, nil
	})
}

// unremoved counts a failed request about a run that has ended: who removes a run reads its output and its record,
// and deletes them one by one. If it stays, it is removed with the next one.
func (v view) unremoved(err error, key string) {
	if err == nil || errors.Is(err, state.ErrNotFound) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if path := strings.Split(key, "/"); len(path) > 2 && (path[0] == "run" || path[0] == "log") && slices.Contains(v.judge.tasks[path[1]].Ended.IDs, path[2]) {
		v.judge.unremoved[path[1]]++
	}
}

// Close implements state.Store.
func (v view) Close() error { return nil }

// shelf is the table as the judge reads it.
type shelf struct{ *memory }

// Get implements state.Store.
func (s shelf) Get(_ context.Context, key string) (state.Record, error) {
	rec, ok := s.records[key]
	if !ok {
		return rec, state.ErrNotFound
	}
	return rec, nil
}

// List implements state.Store.
func (s shelf) List(_ context.Context, prefix string) ([]state.Record, error) {
	return s.list(prefix), nil
}

// Apply implements state.Store.
func (s shelf) Apply(context.Context, ...state.Change) ([]state.Record, error) {
	return nil, errors.ErrUnsupported
}

// Close implements state.Store.
func (s shelf) Close() error { return nil }
