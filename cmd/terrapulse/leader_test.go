package main

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

func TestOnce_EndsWithAdviceWhereTheInstanceThatLeadsCannotBeReached(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	store, err := sqlite.Open(t.Context(), s.path("state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := lease.Acquire(t.Context(), store, state.LeaderLease, "another", lease.Options{TTL: time.Hour, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	r := s.run("-once", "-wait", "0", "-config-file", s.config(s.task("lb", onWeb)))
	wantCode(t, r, exitError)
	wantText(t, r.stdout, "lb", "not run")
	wantText(t, r.stderr, "another", "recorded no address", "-http-addr", "-wait", "-store")
}
