package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// answering is a store that answers writes with an error.
type answering struct {
	state.Store
	err error
}

func (a *answering) Apply(context.Context, ...state.Change) ([]state.Record, error) {
	return nil, a.err
}

func TestNoting_SaysSinceWhenWritesFail(t *testing.T) {
	now := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	inner := &answering{}
	n := &state.Noting{Store: inner, Now: func() time.Time { return now }}
	write := func(ctx context.Context, err error) {
		inner.err = err
		_, _ = n.Apply(ctx)
	}
	says := func(when, want string) {
		t.Helper()
		got := ""
		if err := n.Unwritable(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	full := errors.New("no space left on the disk")
	write(t.Context(), full)
	says("after one failure", "")
	now = now.Add(11 * time.Second)
	write(t.Context(), full)
	says("after some time", "since 2086-03-14T12:00:00Z: no space left")
	ended, end := context.WithCancel(t.Context())
	end()
	write(ended, context.Canceled)
	says("after a write that somebody gave up", "no space left")
	write(t.Context(), &state.ConflictError{})
	says("after an answer", "")
}
