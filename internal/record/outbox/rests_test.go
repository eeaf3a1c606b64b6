package outbox

import (
	"context"
	"errors"
	"testing"
	"time"
)

type resting struct{}

func (resting) Name() string                         { return "resting" }
func (resting) Deliver(context.Context, Event) error { return nil }

func TestRests_SinkThatWantsAYearRestsAsLongAsAnyOther(t *testing.T) {
	r, now := new(Rests), time.Now()
	for n := range 30 {
		wait := r.failed(resting{}, "web", &DownError{Err: errors.New("later"), After: 80 * 365 * 24 * time.Hour}, now)
		if until := r.until(resting{}, "db", now); wait != maxRest || !until.Equal(now.Add(maxRest)) {
			t.Fatalf("after failure %d it rests %s, until %s", n+1, wait, until)
		}
	}
}
