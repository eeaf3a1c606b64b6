package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// source reads from the API, each thing at most once in fresh, however many viewers
// there are. All viewers get what a viewer may read who may not act.
type source struct {
	*apiclient.Client
	viewer access.Caller // for whom it reads
	fresh  time.Duration // how long an answer serves all viewers
	now    func() time.Time
	log    *slog.Logger
	reads  singleflight.Group

	era   atomic.Int64 // changes when what is kept is dropped
	mu    sync.Mutex
	open  func() []string   // tasks of which pages are open; may be nil
	kept  map[string]answer // by what was read
	last  string            // digest of the latest overview; "" if it could not be read
	acted time.Time         // when somebody acted last
}

// maxKept is how many answers are kept: far more than those of all pages that can be open
// at a time. Parts of outputs have 256 KB each.
const maxKept = 500

type answer struct {
	value any // nil if it could not be read
	err   error
	at    time.Time
}

func newSource(o Options, viewer access.Caller) *source {
	return &source{Client: o.API, viewer: viewer, fresh: o.Poll, now: o.Now, log: o.Log, kept: map[string]answer{}}
}

// read returns what is kept under a key, or else reads it. What is no longer fresh, but
// was a moment ago, is returned while it is read again, so that nobody waits for it.
func read[T any](ctx context.Context, s *source, key string, do func(context.Context) (T, error)) (T, error) {
	kept, age := s.recent(key)
	switch value, ok := kept.value.(T); {
	case age < s.fresh:
		return value, kept.err
	case age < 2*s.fresh && ok:
		go func() { _, _ = again(context.WithoutCancel(ctx), s, key, do) }() // its callers get the error
		return value, nil
	}
	return again(ctx, s, key, do)
}

// again reads, once for all callers at that time. Callers that come a moment later get
// the same answer.
func again[T any](ctx context.Context, s *source, key string, do func(context.Context) (T, error)) (T, error) {
	era := s.era.Load()
	result := s.reads.DoChan(fmt.Sprint(era, " ", key), func() (any, error) {
		if kept, age := s.recent(key); age < s.fresh/2 {
			return kept.value, kept.err
		}
		// A viewer who goes away does not end the read of the others.
		ctx, cancel := context.WithTimeout(access.With(context.WithoutCancel(ctx), s.viewer), time.Minute)
		defer cancel()
		v, err := guarded(ctx, s, do)
		s.keep(era, key, v, err)
		return v, err
	})
	select {
	case <-ctx.Done():
		return *new(T), ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return *new(T), r.Err
		}
		return r.Val.(T), nil
	}
}

var errBug = errors.New("internal error, see the log")

// guarded reads without ending the program if that panics: this is no goroutine of the
// HTTP server, which would recover.
func guarded[T any](ctx context.Context, s *source, do func(context.Context) (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("reading for a page caused a panic: please report this bug in Terrapulse", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errBug
		}
	}()
	return do(ctx)
}

// recent returns what is kept under a key, and how old it is; that is very old if
// nothing is kept.
func (s *source) recent(key string) (answer, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, ok := s.kept[key]
	if !ok {
		return answer{}, time.Hour
	}
	return kept, s.now().Sub(kept.at)
}

// keep keeps what was read, unless everything was dropped meanwhile: it may be from
// before. An overview that shows a change drops everything else, so that no page shows it
// together with what was read before.
func (s *source) keep(era int64, key string, value any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.era.Load() != era {
		return
	}
	now := s.now()
	if o, ok := value.(snapshot); ok {
		if o.topics[everything] != s.last {
			s.last = o.topics[everything]
			s.drop()
		}
		if err == nil {
			topics := maps.Clone(o.topics)
			if same, ok := s.kept[latestKey].value.(snapshot); ok { // it may list other tasks
				maps.Copy(topics, same.topics)
			}
			s.kept[latestKey] = answer{snapshot{o.Overview, topics}, nil, now}
		}
	}
	for key := range s.kept {
		if len(s.kept) >= maxKept && key != overviewKey && key != latestKey {
			delete(s.kept, key)
		}
	}
	a := answer{value, err, now}
	if err != nil {
		a.value = nil
	}
	s.kept[key] = a
	time.AfterFunc(2*s.fresh, s.tidy)
}

// tidy drops what is too old for every page, so that it takes no memory after people have
// closed the pages.
func (s *source) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	maps.DeleteFunc(s.kept, func(_ string, a answer) bool { return now.Sub(a.at) >= 2*s.fresh })
}

// forget drops everything that is kept, after somebody has acted.
func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acted = s.now()
	s.drop()
}

// since is how long ago somebody acted, at most fresh: what the API read since then is new
// enough for a part of the overview.
func (s *source) since() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.fresh, s.now().Sub(s.acted))
}

// drop drops everything that is kept. The caller holds mu.
func (s *source) drop() {
	s.era.Add(1)
	clear(s.kept)
}

const (
	overviewKey = "overview" // of what concerns all tasks, with the tasks of open pages
	latestKey   = "latest"   // the latest overview of any tasks, with the digests of all of which it is known
)

// snapshot is an overview of some tasks with the digests of its topics.
type snapshot struct {
	apispec.Overview
	topics digests
}

// overview reads what concerns all tasks, and no more tasks than open pages need.
func (s *source) overview(ctx context.Context) (snapshot, error) {
	return read(ctx, s, overviewKey, s.readOverview)
}

// latest reads the same, unless that was done a moment ago.
func (s *source) latest(ctx context.Context) (digests, error) {
	o, err := again(ctx, s, overviewKey, s.readOverview)
	return o.topics, err
}

// maxNames is how many tasks are named in a request: addresses must not be too long.
const maxNames = 50

func (s *source) readOverview(ctx context.Context) (snapshot, error) {
	var open []string
	if s.open != nil {
		open = s.open()
	}
	o, err := s.readSelected(ctx, named(open[:min(len(open), maxNames)]), 0)
	for further := min(len(open), maxNames); further < len(open) && err == nil; further += maxNames {
		var part snapshot
		part, err = s.readSelected(ctx, named(open[further:min(len(open), further+maxNames)]), s.fresh)
		o.Tasks = append(slices.Clip(o.Tasks), part.Tasks...)
		for _, t := range part.Tasks {
			o.topics[t.Name] = part.topics[t.Name]
		}
	}
	if err != nil {
		return o, err
	}
	for _, name := range open {
		if _, ok := o.topics[name]; !ok {
			o.topics[name] = "" // it is gone
		}
	}
	return o, nil
}

// named selects the tasks with these names.
func named(tasks []string) selection.Selection {
	if len(tasks) == 0 {
		return selection.None()
	}
	return selection.Selection{Tasks: tasks}
}

// selected reads an overview with the selected tasks.
func (s *source) selected(ctx context.Context, selected selection.Selection) (snapshot, error) {
	return read(ctx, s, overviewKey+"?"+selected.Query().Encode(), func(ctx context.Context) (snapshot, error) { return s.readSelected(ctx, selected, s.since()) })
}

// task reads an overview with one task, which may be that of all open pages.
func (s *source) task(ctx context.Context, name string) (snapshot, *apispec.TaskOverview, error) {
	kept, age := s.recent(overviewKey)
	o, ok := kept.value.(snapshot)
	if !ok || age >= s.fresh || o.topics[name] == "" {
		var err error
		if o, err = s.selected(ctx, selection.Selection{Tasks: []string{name}}); err != nil {
			return o, nil, err
		}
	}
	i := slices.IndexFunc(o.Tasks, func(t apispec.TaskOverview) bool { return t.Name == name })
	if i < 0 {
		return o, nil, errNoPage
	}
	return o, &o.Tasks[i], nil
}

func (s *source) readSelected(ctx context.Context, selected selection.Selection, age time.Duration) (snapshot, error) {
	o, err := s.RecentOverview(ctx, selected, age)
	if err != nil {
		return snapshot{}, err
	}
	return snapshot{o, digestsOf(o)}, nil
}

// seen returns the digests of which the latest overviews know; nil if none is kept.
func (s *source) seen() digests {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, _ := s.kept[latestKey].value.(snapshot)
	return maps.Clone(o.topics)
}
