package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// slow is a sink of which each delivery waits for the test.
type slow struct {
	name string
	next chan error // the result of a delivery
	mu   sync.Mutex
	got  []string
}

func newSlow(name string) *slow { return &slow{name: name, next: make(chan error)} }

func (s *slow) Name() string { return s.name }

func (s *slow) Deliver(ctx context.Context, e outbox.Event) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.next:
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got = append(s.got, e.Task+":"+e.Detail)
		}
		return err
	}
}

// give ends a delivery.
func (s *slow) give(t *testing.T, result error) {
	t.Helper()
	select {
	case s.next <- result:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is given no event", s.name)
	}
}

func (s *slow) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, " ")
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// follow delivers in the background until stop is called.
func (b *bench) follow(sinks ...outbox.Sink) (wake chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	wake = make(chan struct{}, 1)
	var work sync.WaitGroup
	d := b.delivery(sinks...)
	d.Now, d.Rests = time.Now, new(outbox.Rests)
	work.Go(func() { d.Follow(ctx, wake) })
	return wake, func() { cancel(); work.Wait() }
}

func TestFollow_SinkThatHangsDelaysNoOther(t *testing.T) {
	b := inMemory(t)
	hanging, quick := newSlow("hanging"), newSlow("quick")
	close(quick.next)
	wake, stop := b.follow(hanging, quick)
	defer stop()
	for i, what := range []string{"one", "two", "three"} {
		b.happens(what, time.Now(), "web")
		wake <- struct{}{}
		eventually(t, what+" is delivered", func() bool { return len(strings.Fields(quick.heard())) == i+1 })
	}
	if hanging.heard() != "" || b.kept() != 3 {
		t.Errorf("the sink that hangs was given %q, and %d records are kept", hanging.heard(), b.kept())
	}
	for range 3 {
		hanging.give(t, nil)
	}
	eventually(t, "all are removed", func() bool { return b.kept() == 0 })
	if want := "web:one web:two web:three"; hanging.heard() != want || quick.heard() != want {
		t.Errorf("the sinks were given %s, and %s", hanging.heard(), quick.heard())
	}
}

func TestFollow_NothingIsRepeatedAfterAStop(t *testing.T) {
	b := inMemory(t)
	hanging, quick := newSlow("hanging"), newSlow("quick")
	close(quick.next)
	b.happens("one", time.Now(), "web", "db")
	wake, stop := b.follow(hanging, quick)
	wake <- struct{}{}
	hanging.give(t, nil) // web:one
	eventually(t, "the quick one has both", func() bool { return quick.heard() == "web:one db:one" })
	stop()
	log, rest := &sink{name: "quick"}, &sink{name: "hanging"}
	b.deliver(0, nil, log, rest)
	if log.heard() != "" || rest.heard() != "db:one" || hanging.heard() != "web:one" {
		t.Errorf("after the stop the sinks are given %q and %q", log.heard(), rest.heard())
	}
}

func TestFollow_WhatASinkTookIsNotedWhileAnotherRests(t *testing.T) {
	b := inMemory(t)
	failing, quick := newSlow("failing"), newSlow("quick")
	close(quick.next)
	b.happens("one", time.Now(), "web")
	wake, stop := b.follow(failing, quick)
	defer stop()
	wake <- struct{}{}
	failing.give(t, &outbox.DownError{Err: errors.New("no answer"), After: time.Minute})
	// If the process is killed now, the next one repeats nothing.
	eventually(t, "the store says that the quick one has it", func() bool {
		all, err := b.store.List(t.Context(), outbox.Prefix)
		return err == nil && len(all) == 1 && strings.Contains(string(all[0].Value), `"taken":{"quick":[0]}`)
	})
}

func TestFollow_SinkThatFailedRestsAndIsTriedAgain(t *testing.T) {
	b := inMemory(t)
	failing := newSlow("failing")
	wake, stop := b.follow(failing)
	defer stop()
	b.happens("one", time.Now(), "web")
	wake <- struct{}{}
	failing.give(t, &outbox.DownError{Err: errors.New("no answer")})
	failing.give(t, nil) // nobody wakes it
	eventually(t, "all are removed", func() bool { return b.kept() == 0 })
}

func TestFollow_ReportsWhatIsNotDelivered(t *testing.T) {
	b := inMemory(t)
	failing := newSlow("failing")
	var mu sync.Mutex
	var last outbox.Backlog
	is := func(want outbox.Backlog) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return last.Events == want.Events && last.Oldest.Equal(want.Oldest)
		}
	}
	d := b.delivery(failing)
	d.Now, d.Rests, d.Backlog = time.Now, new(outbox.Rests), func(left outbox.Backlog) {
		mu.Lock()
		defer mu.Unlock()
		last = left
	}
	ctx, cancel := context.WithCancel(t.Context())
	wake, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		d.Follow(ctx, wake)
	}()
	first := time.Now().Add(-time.Hour)
	b.happens("one", first, "web")
	b.happens("two", time.Now(), "api")
	wake <- struct{}{}
	eventually(t, "two events are left", is(outbox.Backlog{Events: 2, Oldest: first}))
	failing.give(t, &outbox.DownError{Err: errors.New("no answer")})
	eventually(t, "they are still left", is(outbox.Backlog{Events: 2, Oldest: first}))
	failing.give(t, nil)
	failing.give(t, nil)
	eventually(t, "nothing is left", is(outbox.Backlog{}))
	b.happens("three", time.Now(), "web")
	wake <- struct{}{}
	eventually(t, "one is left", func() bool { mu.Lock(); defer mu.Unlock(); return last.Events == 1 })
	cancel()
	<-ended
	if !is(outbox.Backlog{})() {
		t.Errorf("after its end it still reports %+v", last)
	}
}

func TestDelivery_SinkThatIsDownIsLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		tries int // with events of two tasks
		rest  time.Duration
	}{
		"down":         {&outbox.DownError{Err: errors.New("no answer")}, 1, time.Second},
		"asks for 2 m": {&outbox.DownError{Err: errors.New("too many"), After: 2 * time.Minute}, 1, 2 * time.Minute},
		"one event":    {errors.New("bad request"), 2, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := inMemory(t)
			b.happens("one", noon, "web", "db")
			b.happens("two", noon, "web")
			tries, failing := 0, true
			s := &sink{name: "s", fail: func(outbox.Event) error {
				tries++
				if failing {
					return tt.err
				}
				return nil
			}}
			d := b.delivery(s)
			d.Rests = new(outbox.Rests)
			run := func(wantTries int) outbox.Report {
				t.Helper()
				tries = 0
				report, err := d.Run(t.Context())
				if err != nil || tries != wantTries {
					t.Fatalf("%d tries, want %d: %v", tries, wantTries, err)
				}
				return report
			}
			if report := run(tt.tries); report.Again.Sub(b.now) != tt.rest || report.Left != 3 {
				t.Errorf("%d are left, again in %s", report.Left, report.Again.Sub(b.now))
			}
			b.now = b.now.Add(tt.rest - 1)
			run(0)
			b.now = b.now.Add(1)
			if report := run(tt.tries); report.Again.Sub(b.now) != min(2*tt.rest, 5*time.Minute) {
				t.Errorf("the second time, again in %s", report.Again.Sub(b.now))
			}
			b.now = b.now.Add(5 * time.Minute)
			failing = false
			if report := run(3); report.Left != 0 || s.heard() != "web:one db:one web:two" {
				t.Errorf("%d are left; the sink was given %s", report.Left, s.heard())
			}
			b.happens("three", noon, "db")
			failing = true
			if report := run(1); report.Again.Sub(b.now) != tt.rest {
				t.Errorf("after a success, again in %s", report.Again.Sub(b.now))
			}
			b.now = b.now.Add(-time.Hour) // the clock was ahead
			run(1)
		})
	}
}

// choosy wants events of one task.
type choosy struct {
	*sink
	task string
}

func (c choosy) Wants(e outbox.Event) bool { return e.Task == c.task }

func TestDelivery_EventThatASinkDoesNotWantIsNotKeptForIt(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	b.happens("two", noon, "db")
	c := choosy{&sink{name: "c", fail: func(outbox.Event) error { return errors.New("no answer") }}, "web"}
	all := &sink{name: "all"}
	report, err := b.delivery(all, c).Run(t.Context())
	if err != nil || report.Left != 1 || b.kept() != 1 || all.heard() != "web:one db:two" {
		t.Errorf("%d events are left in %d records, %v", report.Left, b.kept(), err)
	}
}

func TestFollow_ReadsNothingWhileASinkRests(t *testing.T) {
	b := inMemory(t)
	counting := &counted{Store: b.store}
	failing := newSlow("failing")
	ctx, cancel := context.WithCancel(t.Context())
	wake := make(chan struct{}, 1)
	var work sync.WaitGroup
	d := b.delivery(failing)
	d.Store, d.Now, d.Rests = counting, time.Now, new(outbox.Rests)
	work.Go(func() { d.Follow(ctx, wake) })
	b.happens("one", time.Now(), "web")
	wake <- struct{}{}
	failing.give(t, &outbox.DownError{Err: fmt.Errorf("no answer"), After: time.Minute})
	eventually(t, "it rests", func() bool { return counting.lists() == 2 })
	cancel()
	work.Wait()
	if n := counting.lists(); n != 2 {
		t.Errorf("%d lists", n)
	}
}

// counted counts lists.
type counted struct {
	state.Store
	mu sync.Mutex
	n  int
}

func (c *counted) List(ctx context.Context, prefix string) ([]state.Record, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Store.List(ctx, prefix)
}

func (c *counted) lists() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
