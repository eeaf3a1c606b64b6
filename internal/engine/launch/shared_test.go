package launch

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestShared_InstancesWithRoomTakeWhatWaitsAtTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		_, stopB := c.instance("b", "same")
		_, stopC := c.instance("c", "other")
		time.Sleep(3 * time.Second)
		stopSharing := a.Share(t.Context(), c.Apply)
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3", "4", "5")
		time.Sleep(5 * time.Second)
		if by := c.by(); by["a"] != 2 || by["b"] != 2 || by["c"] != 0 {
			t.Errorf("they carry out %v", by)
		}
		if open := c.open(); len(open) != 1 || open[0] != "5" {
			t.Errorf("these are open: %v", open)
		}
		if r, _ := c.runner("b"); r.Room != 0 || r.Parallel != 2 {
			t.Errorf("the record of b is %+v", r)
		}
		time.Sleep(time.Minute)
		if by := c.by(); by["a"]+by["b"] != 5 || c.most["a"] > 2 || c.most["b"] > 2 {
			t.Errorf("they carried out %v, %v at a time", by, c.most)
		}
		if r, _ := c.runner("b"); r.Room != 2 || r.Ended == 0 {
			t.Errorf("then the record of b is %+v", r)
		}
		select {
		case <-a.Local.Ended():
		default:
			t.Error("the leader does not tick after runs of others have ended")
		}
		stopSharing()
		for _, stop := range []func(){stopA, stopB, stopC} {
			stop()
		}
		if _, there := c.runner("b"); there {
			t.Error("an instance that ends leaves its record")
		}
	})
}

func TestShared_LeaderCarriesOutWhatADeadInstanceDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.launch(a, "1", "2", "3", "4", "5")
		time.Sleep(2 * time.Second)
		if !c.runs(a, "3") || len(c.by()) != 1 || c.by()["a"] != 2 || !slices.Equal(c.open(), []string{"3", "4"}) {
			t.Fatalf("launch 3 is under way: %t; carried out: %v; open are %v", c.runs(a, "3"), c.by(), c.open())
		}
		time.Sleep(30 * time.Second) // nothing is lost by having been open: each begins as soon as the leader has room
		if c.by()["a"] != 5 || len(c.open()) != 0 {
			t.Errorf("carried out: %v; open are %v", c.by(), c.open())
		}
	})
}

// An instance that dies between its taking and the claim leaves a run that is in no queue: the next tick starts
// the launch again.
func TestShared_LaunchThatWasTakenIsInNoQueueAndCanBeStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, stop := besideADeadOne(t)
		defer stop()
		c.launch(a, "1", "2", "3")
		synctest.Wait()
		launch := c.takes("3")
		time.Sleep(20 * time.Second)
		if c.runs(a, "3") || c.by()["a"] != 2 {
			t.Errorf("launch 3 is under way: %t; carried out: %v", c.runs(a, "3"), c.by())
		}
		if err := a.Start(t.Context(), launch); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c.by()["a"] != 3 {
			t.Errorf("then carried out: %v", c.by())
		}
	})
}

func TestShared_InstanceThatReadOtherFilesThanTheLeaderTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		var works atomic.Value
		works.Store("same")
		_, stopB := c.instanceWith("b", func() string { return works.Load().(string) })
		defer stopB()
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(1500 * time.Millisecond) // the leader has read that there is room; the instances read at whole seconds
		works.Store("other")                // its record says otherwise until it writes it again
		c.launch(a, "1", "2", "3")
		time.Sleep(20 * time.Second)
		if by := c.by(); by["a"] != 3 || by["b"] != 0 {
			t.Errorf("carried out: %v", by)
		}
		if r, _ := c.runner("b"); r.Definition != "other" {
			t.Errorf("its record is %+v", r)
		}
	})
}

func TestShared_NothingIsCarriedOutTwiceWhenTheLeadershipChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		stopSharing := a.Share(t.Context(), c.Apply)
		c.launch(a, "1", "2", "3")
		synctest.Wait()
		stopSharing()
		b, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(30 * time.Second)
		if by := c.by(); by["a"] != 2 || c.runs(a, "3") {
			t.Errorf("what waits at an instance that no longer leads begins there, or counts as under way: %v", by)
		}
		// The new leader finds a launch that the old one has opened, and starts it itself.
		c.opens("other", "4")
		defer b.Share(t.Context(), c.Apply)()
		c.startsAgain(b)
		synctest.Wait()
		if c.by()["b"] != 2 || len(c.open()) != 0 {
			t.Errorf("carried out: %v; open are %v", c.by(), c.open())
		}
	})
}

func TestShared_InstanceThatStopsGetsNoLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		b, stopB := c.instance("b", "same")
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), c.Apply)()
		b.Close()
		time.Sleep(2 * time.Second)
		c.launch(a, "1", "2", "3")
		time.Sleep(15 * time.Second)
		if by := c.by(); by["a"] != 3 || by["b"] != 0 {
			t.Errorf("carried out: %v", by)
		}
		stopB()
	})
}

func TestShared_InstanceTakesNothingForWhichItHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(3 * time.Second)
		c.launch(b, "1") // since it led before
		time.Sleep(3 * time.Second)
		c.opens("same", "2", "3")
		time.Sleep(5 * time.Second)
		if c.by()["b"] != 2 || !slices.Equal(c.open(), []string{"3"}) {
			t.Errorf("carried out: %v; open are %v", c.by(), c.open())
		}
		time.Sleep(5 * time.Second)
		if c.by()["b"] != 3 || c.most["b"] > 2 || len(c.open()) != 0 {
			t.Errorf("then carried out: %v, %v at a time; open are %v", c.by(), c.most, c.open())
		}
	})
}

// The answers of a store that is away for a while are lost, or it is not reached.
func TestShared_StoreThatIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, stopA := c.instance("a", "same")
		defer stopA()
		_, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(3 * time.Second)
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		opening := c.delays("create open/3")
		c.launch(a, "1", "2", "3", "4", "5", "6")
		<-opening.came
		c.breaks(errors.New("the store does not answer"))
		close(opening.goOn)
		time.Sleep(3 * time.Second)
		if by := c.by(); by["a"] != 2 || by["b"] != 0 {
			t.Errorf("carried out: %v", by)
		}
		c.breaks(nil)
		for range 60 {
			c.tick(a)
			time.Sleep(time.Second)
		}
		if by := c.by(); by["a"]+by["b"] != 6 || by["b"] == 0 || len(c.open()) != 0 {
			t.Errorf("then carried out: %v; open are %v", by, c.open())
		}
	})
}
