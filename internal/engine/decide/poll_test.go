package decide

import (
	"testing"
	"time"
)

func TestNextPoll_ComesSoonAndThenLessOften(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0:                         2 * time.Second,
		2 * time.Second:           4 * time.Second,
		3 * time.Second:           4 * time.Second,
		4 * time.Second:           6 * time.Second,
		6 * time.Second:           12 * time.Second,
		48 * time.Second:          54 * time.Second,
		120 * time.Second:         132 * time.Second,
		-time.Hour:                -time.Hour + 2*time.Second, // another clock is ahead
		30*24*time.Hour + 1234567: 0,
	} {
		got := NextPoll(noon, noon.Add(after))
		if want != 0 && !got.Equal(noon.Add(want)) {
			t.Errorf("after %s: %s, want %s", after, got.Sub(noon), want)
		}
		if wait := got.Sub(noon.Add(after)); wait <= 0 || wait > pollMax {
			t.Errorf("after %s: %s later", after, wait)
		}
		for step := time.Duration(0); step < got.Sub(noon.Add(after)); step += got.Sub(noon.Add(after))/7 + 1 {
			if again := NextPoll(noon, noon.Add(after+step)); after >= 0 && !again.Equal(got) {
				t.Errorf("after %s: %s, and %s later: %s", after, got, step, again)
			}
		}
	}
}

func TestNextPoll_ComesWithinThreeSecondsAndAtMostThirtyTimesAMinute(t *testing.T) {
	polls := map[time.Time]bool{}
	for began := noon; began.Before(noon.Add(time.Minute)); began = began.Add(97 * time.Millisecond) {
		first := NextPoll(began, began)
		if after := first.Sub(began); after < pollSoon/2 || after > 3*pollSoon/2 {
			t.Errorf("the first poll comes after %s", after)
		}
		for now := first; now.Before(noon.Add(time.Minute)); now = NextPoll(began, now) {
			polls[now.Truncate(time.Second)] = true
		}
	}
	if len(polls) > 30 {
		t.Errorf("%d polls in a minute", len(polls))
	}
}

func TestNextPoll_IsTheSameForRunsThatBeganToWaitOneAfterTheOther(t *testing.T) {
	polls := map[time.Time]bool{}
	for began := noon; began.Before(noon.Add(pollMin)); began = began.Add(97 * time.Millisecond) {
		for now := noon.Add(pollMin + pollEarly); now.Before(noon.Add(time.Hour)); now = NextPoll(began, now) {
			polls[now] = true
		}
	}
	if len(polls) > 60 {
		t.Errorf("%d polls in an hour", len(polls))
	}
}
