package launch

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Another instance takes a launch while the leader deletes its record, which has room for it by now.
func TestShared_LaunchThatIsTakenAtTheLastMomentBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		takeBack := c.delays("delete open/3")
		c.launch(a, "1", "2", "3")
		<-takeBack.came
		c.takes("3")
		close(takeBack.goOn)
		synctest.Wait()
		c.launch(a, "4")
		synctest.Wait()
		if by := c.by(); by["a"] != 3 || c.ran["run-3"] != "" || c.runs(a, "3") {
			t.Errorf("carried out: %v; launch 3 by %q", by, c.ran["run-3"])
		}
	})
}

// Another instance has taken a launch, and the leader has room for it before it finds that out.
func TestShared_LaunchThatTheLeaderFindsTakenWhenItHasRoomBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.launch(a, "1", "2", "3")
		synctest.Wait()
		read := c.delays("list open/")
		c.takes("3")
		<-read.came
		c.roomComes()
		close(read.goOn)
		synctest.Wait()
		c.launch(a, "4")
		synctest.Wait()
		if by := c.by(); by["a"] != 3 || c.ran["run-3"] != "" || c.runs(a, "3") {
			t.Errorf("carried out: %v; launch 3 by %q", by, c.ran["run-3"])
		}
	})
}

// The leader has room for a launch while it opens the launch for others.
func TestShared_LaunchThatIsBeingOpenedBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		_, stopB := c.instance("b", "same")
		defer stopB()
		synctest.Wait()
		defer a.Share(t.Context(), c.Apply)()
		synctest.Wait()
		opening := c.delays("create open/3")
		c.launch(a, "1", "2", "3")
		<-opening.came
		c.roomComes()
		if by := c.by(); by["a"] != 2 || len(by) != 1 {
			t.Errorf("it begins while it is being opened: carried out: %v", by)
		}
		close(opening.goOn)
		time.Sleep(30 * time.Second)
		if by := c.by(); by["a"]+by["b"] != 3 || len(c.open()) != 0 {
			t.Errorf("carried out: %v; open are %v", by, c.open())
		}
	})
}

// The leader opens a launch, and the answer of the store is lost. Nobody takes it: the leader does.
func TestShared_LaunchThatIsPerhapsOpenIsOpenNoMoreOnceItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.loses("create open/3")
		c.launch(a, "1", "2", "3")
		synctest.Wait()
		if !slices.Equal(c.open(), []string{"3"}) || !c.runs(a, "3") {
			t.Fatalf("open are %v; launch 3 is under way: %t", c.open(), c.runs(a, "3"))
		}
		time.Sleep(15 * time.Second)
		if by := c.by(); by["a"] != 3 || len(c.open()) != 0 {
			t.Errorf("carried out: %v; open are %v", by, c.open())
		}
	})
}

// The leader opens a launch, and the answer of the store is lost. Another instance takes it before the leader reads
// what is open, and the leader has room.
func TestShared_LaunchThatIsPerhapsOpenAndWasTakenBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.loses("create open/3")
		read := c.delays("list open/")
		c.launch(a, "1", "2", "3")
		<-read.came
		c.takes("3")
		c.roomComes()
		close(read.goOn)
		time.Sleep(15 * time.Second)
		if by := c.by(); by["a"] != 2 || len(c.open()) != 0 || c.runs(a, "3") {
			t.Errorf("carried out: %v; open are %v; launch 3 is under way: %t", by, c.open(), c.runs(a, "3"))
		}
	})
}

// The leader takes back a launch that it has opened, and the answer of the store is lost: a tick starts it again.
func TestShared_LaunchThatWasPerhapsTakenBackIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.loses("delete open/3")
		c.launch(a, "1", "2", "3")
		time.Sleep(15 * time.Second)
		if c.by()["a"] != 2 || c.runs(a, "3") {
			t.Errorf("carried out: %v; launch 3 is under way: %t", c.by(), c.runs(a, "3"))
		}
		c.tick(a)
		synctest.Wait()
		if c.by()["a"] != 3 {
			t.Errorf("after a tick, carried out: %v", c.by())
		}
	})
}

// An instance is stopped while it takes a launch: its process does not end before that has ended, too.
func TestShared_InstanceThatStopsWaitsForALaunchThatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b, stopB := c.instance("b", "same")
		defer stopB()
		synctest.Wait()
		taking := c.delays("delete open/1")
		c.opens("same", "1")
		<-taking.came
		b.Close()
		var waited atomic.Bool
		go func() {
			b.Wait()
			waited.Store(true)
		}()
		synctest.Wait()
		if waited.Load() {
			t.Error("it does not wait for the launch that it takes")
		}
		close(taking.goOn)
		synctest.Wait()
		if waited.Load() || c.by()["b"] != 1 {
			t.Errorf("it does not wait for the run; carried out: %v", c.by())
		}
		c.roomComes()
		if !waited.Load() {
			t.Error("it waits although the run has ended")
		}
	})
}
