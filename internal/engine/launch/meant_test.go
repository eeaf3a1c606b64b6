package launch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// three starts a leader and two instances with room for two runs each.
func three(t *testing.T) (c *cluster, leader *Shared, stop func()) {
	c = newCluster(t)
	leader, stopA := c.instance("a", "same")
	_, stopB := c.instance("b", "same")
	_, stopC := c.instance("c", "same")
	time.Sleep(3 * time.Second)
	stopSharing := leader.Share(t.Context(), c.Apply)
	time.Sleep(3 * time.Second)
	return c, leader, func() {
		stopSharing()
		stopA()
		stopB()
		stopC()
	}
}

func TestShared_LaunchThatIsMeantForAnInstanceWaitsForRoomThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.meant(a, "b", "1", "2", "3", "4", "5")
		time.Sleep(5 * time.Second)
		if by := c.by(); by["b"] != 2 || len(by) != 1 {
			t.Errorf("at first they carry out %v", by)
		}
		if status, _ := a.Status(t.Context(), []string{"5"}); !status["5"].Running {
			t.Error("a launch that waits for its instance counts as gone")
		}
		time.Sleep(2 * time.Minute)
		if by := c.by(); by["b"] != 5 || c.most["b"] > 2 {
			t.Errorf("they carried out %v, %v at a time", by, c.most)
		}
	})
}

// Its latest run was lost, and perhaps has left a state there: that is worth a wait, but not a long one.
func TestShared_LaunchWaitsForTheInstanceOfALostRunOnlyAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.meant(a, "b", "1", "2", "3", "4", "5", "6", "7", "8") // for 40 seconds
		time.Sleep(time.Second)
		c.meantUntil(a, "b", time.Now().Add(20*time.Second), "9")
		time.Sleep(15 * time.Second)
		if by := c.by(); by["a"]+by["c"] != 0 {
			t.Errorf("it has not waited: %v", by)
		}
		time.Sleep(15 * time.Second)
		if by := c.by(); by["a"]+by["c"] != 1 {
			t.Errorf("it waits still: %v", by)
		}
	})
}

func TestShared_LaunchThatIsMeantForTheLeaderStaysThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.meant(a, "a", "1", "2", "3", "4")
		time.Sleep(time.Minute)
		if by := c.by(); by["a"] != 4 {
			t.Errorf("they carried out %v", by)
		}
	})
}

func TestShared_LaunchBeginsWithoutAnInstanceThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		if why, err := a.Unreached(t.Context(), "d"); err != nil || why != "that instance is not there" {
			t.Errorf("%q, %v", why, err)
		}
		c.announces(state.Runner{ID: "d", Room: 2})
		c.announces(state.Runner{ID: "f", Definition: "other"})
		if why, err := a.Unreached(t.Context(), "f"); err != nil || why != "that instance works with other files or another Terraform than the leader" {
			t.Errorf("%q, %v", why, err)
		}
		c.meant(a, "e", "1")
		c.meant(a, "d", "2")
		time.Sleep(3 * time.Second)
		if by := c.by(); by["a"] != 1 || len(by) != 1 || !slices.Equal(c.open(), []string{"2"}) {
			t.Errorf("they carry out %v, and open are %v", by, c.open())
		}
		time.Sleep(4 * time.Second) // it has room, and would have taken the launch
		if by := c.by(); by["a"] != 2 || len(c.open()) != 0 {
			t.Errorf("they carry out %v, and open are %v", by, c.open())
		}
	})
}

// An instance that is dead and full has no room for its launch, so only its record shows that it is gone: not if a
// wrong clock has written it.
func TestShared_FullInstanceWhoseRecordIsOfATimeFarAheadIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.announces(state.Runner{ID: "d", Until: time.Now().Add(3 * time.Hour)})
		if why, err := a.Unreached(t.Context(), "d"); err != nil || why != "that instance is not there, or its clock is wrong" {
			t.Errorf("%q, %v", why, err)
		}
		c.meant(a, "d", "1")
		time.Sleep(20 * time.Second)
		if by := c.by(); by["a"] != 1 {
			t.Errorf("they carried out %v", by)
		}
	})
}

// An instance that is full takes no launch. That it is gone is seen by the record which it writes as long as it
// lives, whatever its clock.
func TestShared_FullInstanceThatIsSilentIsNotThere(t *testing.T) {
	for name, apart := range map[string]time.Duration{"right clock": 0, "3 hours behind": -3 * time.Hour, "3 hours ahead": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, a, stop := three(t)
				defer stop()
				c.announces(state.Runner{ID: "d"})
				record := state.Stored[state.Instance]{Record: state.Record{Key: state.InstanceKey("d")}}
				lives := func(d time.Duration) {
					for range int(d / (5 * time.Second)) {
						record.Data = state.Instance{ID: "d", Seen: time.Now().Add(apart), Silent: 20 * time.Second}
						written, err := c.Apply(t.Context(), record.Write(record.Data))
						if err != nil {
							t.Fatal(err)
						}
						record.Record = written[0]
						time.Sleep(5 * time.Second)
					}
				}
				lives(10 * time.Second)
				c.meant(a, "d", "1")
				lives(5 * time.Minute)
				if by := c.by(); len(by) != 0 {
					t.Fatalf("while the instance lives and has no room, they carry out %v", by)
				}
				if why, err := a.Unreached(t.Context(), "d"); err != nil || why != "" {
					t.Errorf("%q, %v", why, err)
				}
				time.Sleep(30 * time.Second)
				if why, err := a.Unreached(t.Context(), "d"); err != nil || why != "that instance is not there" || c.by()["a"] != 1 {
					t.Errorf("%q, %v, they carry out %v", why, err, c.by())
				}
				lives(10 * time.Second)
				if why, err := a.Unreached(t.Context(), "d"); err != nil || why != "" {
					t.Errorf("after it is there again: %q, %v", why, err)
				}
			})
		})
	}
}

func TestShared_LaunchForAnInstanceThatIsNotThereBeginsWhereThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.announces(state.Runner{ID: "d", Room: 2})
		c.meant(a, "d", "1")
		time.Sleep(3 * time.Second)
		c.launch(a, "2", "3") // the leader is full
		time.Sleep(2 * meantEvery)
		if by := c.by(); by["a"] != 2 || by["b"]+by["c"] != 1 || len(c.open()) != 0 {
			t.Errorf("they carry out %v, and open are %v", by, c.open())
		}
	})
}

// The runs of an instance end together, and others begin there at once: it has room for a moment.
func TestShared_LaunchWaitsForAnInstanceThatHasRoomForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := three(t)
		defer stop()
		c.announces(state.Runner{ID: "d"})
		c.meant(a, "d", "1")
		for range 10 {
			time.Sleep(meantEvery)
			c.announces(state.Runner{ID: "d", Room: 2})
			synctest.Wait()
			time.Sleep(meantEvery - time.Nanosecond)
			c.announces(state.Runner{ID: "d"})
			synctest.Wait()
		}
		if by := c.by(); len(by) != 0 || !c.runs(a, "1") {
			t.Errorf("they carry out %v; the launch is under way: %t", by, c.runs(a, "1"))
		}
		c.announces(state.Runner{ID: "d", Room: 2})
		time.Sleep(2 * meantEvery)
		if by := c.by(); by["a"] != 1 || len(c.open()) != 0 {
			t.Errorf("after that instance had room for long, they carry out %v, and open are %v", by, c.open())
		}
	})
}

func TestShared_NextLeaderStartsWhatWaitedForAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.announces(state.Runner{ID: "d"})
		a, stop := c.instance("a", "same")
		defer stop()
		stopSharing := a.Share(t.Context(), c.Apply)
		c.meant(a, "d", "1")
		synctest.Wait()
		if !c.runs(a, "1") {
			t.Error("a launch that waits for its instance counts as gone")
		}
		stopSharing()
		if c.runs(a, "1") {
			t.Error("after the leadership has ended, it counts as under way")
		}
	})
}
