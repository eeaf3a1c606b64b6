package state_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// applied is a number that was applied, with its time.
type applied struct {
	count       int
	from, until time.Time
}

// most is the most that was applied within a window, by its definition.
func most(history []applied, count int, window time.Duration, now time.Time) int {
	for _, a := range history {
		if now.Before(a.until.Add(window)) {
			count = max(count, a.count)
		}
	}
	return count
}

// The list, with a precision of a second, says of every history what the history says, and is never laxer if it is full.
func TestPeaks_AreTheMostOfTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.IntRange(0, 1000).Draw(t, "window")) * time.Second
		now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		var history []applied
		var peaks state.Peaks
		count, full := 0, false
		for range rapid.IntRange(1, 60).Draw(t, "applies") {
			from := now
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "after")) * time.Second)
			next := rapid.IntRange(0, 50).Draw(t, "count")
			if rapid.Bool().Draw(t, "less") {
				next = max(0, count-1)
			}
			history = append(history, applied{count, from, now})
			peaks, count = peaks.Replaced(count, next, now, now.Add(-window)), next
			if len(peaks) > state.MaxPeaks {
				t.Fatalf("%d peaks", len(peaks))
			}
			full = full || len(peaks) == state.MaxPeaks
			for i := range peaks[:max(0, len(peaks)-1)] {
				if peaks[i].Count <= peaks[i+1].Count || !peaks[i].Until.Before(peaks[i+1].Until) {
					t.Fatalf("a later one makes one needless: %v", peaks)
				}
			}
			text, err := json.Marshal(peaks)
			var stored state.Peaks
			if err != nil || peaks != nil && json.Unmarshal(text, &stored) != nil || cmp.Diff(peaks, stored) != "" {
				t.Fatalf("%v is stored as %s, and read as %v", peaks, text, stored)
			}
			at := now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "at")) * time.Second)
			got, want := peaks.Most(count, window, at), most(history, count, window, at)
			if got < want || !full && got != want {
				t.Fatalf("at %s, %v of %d say %d, want %d", at, peaks, count, got, want)
			}
		}
	})
}

func TestPeaks_ATimeToComeDoesNotCountForLonger(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	task := state.Task{Observation: state.Observation{Losses: state.Losses{{Resources: 3, At: now.Add(time.Hour)}},
		Counts: []state.Count{{Of: "keys", Peaks: state.Peaks{{Count: 60, Until: now}, {Count: 50, Until: now.Add(time.Hour)}, {Count: 40, Until: now.Add(2 * time.Hour)}}}}}}
	got := task.WithoutFuture(now.Add(time.Second))
	if diff := cmp.Diff(state.Peaks{{Count: 60, Until: now}, {Count: 50, Until: now.Add(time.Second)}}, got.Counts[0].Peaks); diff != "" {
		t.Error(diff)
	}
	if !got.Losses[0].At.Equal(now.Add(time.Second)) || task.Counts[0].Peaks[1].Until.Equal(got.Counts[0].Peaks[1].Until) {
		t.Errorf("%+v of %+v", got, task)
	}
}

// With any number of runs, what was destroyed within the window is at least what the list says.
func TestLosses_AreThoseOfTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.IntRange(1, 1000).Draw(t, "window")) * time.Second
		now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		var all, losses state.Losses
		full := false
		for range rapid.IntRange(1, 60).Draw(t, "runs") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "after")) * time.Second)
			loss := state.Loss{Resources: rapid.IntRange(0, 9).Draw(t, "destroyed"), Of: rapid.IntRange(0, 50).Draw(t, "of"), At: now}
			all, losses = append(all, loss), losses.Add(loss, now.Add(-window))
			at := now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "at")) * time.Second)
			got, gotMost := losses.Within(window, at).With(0, 0)
			want, wantMost := 0, 0
			for _, l := range all {
				if l.Resources > 0 && at.Before(l.At.Add(window)) {
					want, wantMost = want+l.Resources, max(wantMost, l.Of)
				}
			}
			full = full || len(losses) == state.MaxPeaks
			if got < want || gotMost > wantMost || !full && (got != want || gotMost != wantMost) || len(losses) > state.MaxPeaks {
				t.Fatalf("%v say %d of %d, want %d of %d", losses, got, gotMost, want, wantMost)
			}
			text, err := json.Marshal(losses)
			var stored state.Losses
			if err != nil || losses != nil && json.Unmarshal(text, &stored) != nil || cmp.Diff(losses, stored) != "" {
				t.Fatalf("%v is stored as %s, and read as %v", losses, text, stored)
			}
		}
	})
}

func TestLosses_ARunThatFollowsAFailureDoesTheRest(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	l := state.Losses(nil).Add(state.Loss{Resources: 5, Of: 50, At: at, Open: true}, time.Time{})
	if all, _ := l.With(3, 47); all != 5 {
		t.Errorf("the rest of 5 is %d in all", all)
	}
	l = l.Add(state.Loss{Resources: 3, Of: 48, At: at.Add(time.Minute)}, time.Time{})
	if diff := cmp.Diff(state.Losses{{Resources: 5, Of: 50, At: at.Add(time.Minute)}}, l); diff != "" {
		t.Error(diff)
	}
	if all, _ := l.With(3, 45); all != 8 {
		t.Errorf("another 3 are %d in all", all)
	}
}
