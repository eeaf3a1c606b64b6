package state_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	task := state.Task{Applied: state.Applied{Sizes: state.Sizes{Latest: &state.Begun{InState: new(3), Until: now.Add(time.Hour)}},
		Counts: []state.Count{{Of: "keys", Peaks: state.Peaks{{Count: 60, Until: now}, {Count: 50, Until: now.Add(time.Hour)}, {Count: 40, Until: now.Add(2 * time.Hour)}}}}}}
	got := task.WithoutFuture(now.Add(time.Second))
	if diff := cmp.Diff(state.Peaks{{Count: 60, Until: now}, {Count: 50, Until: now.Add(time.Second)}}, got.Applied.Counts[0].Peaks); diff != "" {
		t.Error(diff)
	}
	if !got.Applied.Sizes.Latest.Until.Equal(now.Add(time.Second)) || task.Applied.Sizes.Latest.Until.Equal(got.Applied.Sizes.Latest.Until) || task.Applied.Counts[0].Peaks[1].Until.Equal(got.Applied.Counts[0].Peaks[1].Until) {
		t.Errorf("%+v of %+v", got, task)
	}
}

// Whatever applies have done before they ended: what is gone since an apply of the window counts as gone. What an
// apply has added counts against what it has destroyed only if it is a replacement.
func TestSizes_CountWhatIsGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 500 * time.Second
		type begun struct {
			size, replaced int
			ended          time.Time
		}
		now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		size, serial := rapid.IntRange(0, 50).Draw(t, "resources"), 1
		var task state.Task
		var all []begun
		for range rapid.IntRange(1, 40).Draw(t, "applies") {
			began := now
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "for")) * time.Second)
			destroys, adds := rapid.IntRange(0, size).Draw(t, "destroys"), rapid.IntRange(0, 9).Draw(t, "adds")
			run := state.Run{Kind: state.KindApply, State: rapid.SampledFrom([]state.RunState{state.RunSucceeded, state.RunFailed, state.RunLost}).Draw(t, "state"), Created: began,
				Times: state.Times{Started: began, Ended: now},
				Work:  state.Work{Begun: &state.Begun{Window: window, InState: new(size), Replaces: min(destroys, adds), State: fmt.Sprint("s/", serial)}}}
			of := begun{size: size, ended: now}
			if rapid.Bool().Draw(t, "does something") { // perhaps a part of it
				destroyed, added := rapid.IntRange(0, destroys).Draw(t, "destroyed"), rapid.IntRange(0, adds).Draw(t, "added")
				size, serial, of.replaced = size-destroyed+added, serial+1, min(destroyed, added)
			}
			all = append(all, of)
			task, _ = task.Conclude(run, "")
			text, err := json.Marshal(task.Applied.Sizes)
			var stored state.Sizes
			if err != nil || json.Unmarshal(text, &stored) != nil || cmp.Diff(task.Applied.Sizes, stored, cmpopts.EquateEmpty()) != "" || len(stored.Peaks) > state.MaxPeaks {
				t.Fatalf("%+v is stored as %s, and read as %+v", task.Applied.Sizes, text, stored)
			}
			gone, replaced := 0, 0
			for i := len(all) - 1; i >= 0 && now.Before(all[i].ended.Add(window)); i-- {
				replaced += all[i].replaced
				gone = max(gone, all[i].size-size+replaced)
			}
			if counts := stored.Before(fmt.Sprint("s/", serial)).Most(size, window, now) - size; counts < gone {
				t.Fatalf("%+v say that %d are gone, and %d are", stored, counts, gone)
			}
		}
	})
}
