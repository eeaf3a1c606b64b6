package reconcile

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

func TestLoop_LaunchThatNeedsAPersonIsRetriedRarely(t *testing.T) {
	for err, want := range map[error]int{
		errors.New("no answer"):                                           1,
		fault.As(fault.Transient, errors.New("no capacity")):              1,
		fault.As(fault.Person, errors.New("iam:PassRole is not allowed")): 0,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newLoopBench(t, tasks(1)...)
				b.launcher.refuse(err)
				b.start()
				b.launcher.refuse(nil)
				pass(liveCheck - time.Second)
				if got := len(b.launcher.launches()); got != want {
					t.Errorf("%d launches were started by now, want %d", got, want)
				}
				pass(2 * time.Second)
				if got := len(b.launcher.launches()); got != 1 {
					t.Errorf("%d launches were started after %s, want 1", got, liveCheck)
				}
			})
		})
	}
}
