package launch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// cluster is a store, with the instances that share it.
type cluster struct {
	t *testing.T

	mu      sync.Mutex
	records map[string]state.Record
	version int
	broken  error             // of each request
	ran     map[string]string // by run: the instance
	most    map[string]int    // by instance: runs at a time
	now     map[string]int
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, records: map[string]state.Record{}, ran: map[string]string{}, most: map[string]int{}, now: map[string]int{}}
}

func (c *cluster) Get(_ context.Context, key string) (state.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rec, ok := c.records[key]; ok || c.broken != nil {
		return rec, c.broken
	}
	return state.Record{}, state.ErrNotFound
}

func (c *cluster) List(_ context.Context, prefix string) (all []state.Record, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, rec := range c.records {
		if strings.HasPrefix(key, prefix) {
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, c.broken
}

func (c *cluster) Apply(_ context.Context, changes ...state.Change) ([]state.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil, c.broken
	}
	for _, change := range changes {
		if err := change.Conflict(c.records[change.Key]); err != nil {
			return nil, err
		}
	}
	c.version++
	written := make([]state.Record, len(changes))
	for i, change := range changes {
		if change.Op == state.OpDelete {
			delete(c.records, change.Key)
			continue
		}
		written[i] = state.Record{Key: change.Key, Value: change.Value, Version: strconv.Itoa(c.version)}
		c.records[change.Key] = written[i]
	}
	return written, nil
}

func (c *cluster) Close() error { return nil }

// instance starts an instance with room for two runs, which take ten seconds.
func (c *cluster) instance(id, works string) (s *Shared, stop func()) {
	c.t.Helper()
	return c.instanceWith(id, func() string { return works })
}

func (c *cluster) instanceWith(id string, works func() string) (s *Shared, stop func()) {
	return c.instanceOn(c, id, works)
}

func (c *cluster) instanceOn(store state.Store, id string, works func() string) (s *Shared, stop func()) {
	ctx, term := context.WithCancel(c.t.Context())
	local := NewLocal(ctx, 2, slog.New(slog.DiscardHandler), func(ctx context.Context, _ state.Launch, run state.PlannedRun) error {
		c.mu.Lock()
		if other := c.ran[run.ID]; other != "" {
			c.t.Errorf("run %s is carried out by %s and by %s", run.ID, other, id)
		}
		c.ran[run.ID] = id
		c.now[id]++
		c.most[id] = max(c.most[id], c.now[id])
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
		c.mu.Lock()
		c.now[id]--
		c.mu.Unlock()
		return nil
	})
	s = NewShared(local, store, id)
	s.Works, s.Now, s.Log = works, time.Now, slog.New(slog.DiscardHandler)
	serving, unshare := context.WithCancel(c.t.Context())
	var served sync.WaitGroup
	served.Go(func() { s.Serve(serving) })
	return s, func() {
		term()
		local.Close()
		local.Wait()
		unshare()
		served.Wait()
	}
}

// launch writes launches of one run each, and starts them at the leader.
func (c *cluster) launch(leader *Shared, names ...string) {
	c.t.Helper()
	c.launchOn(c, leader, names...)
}

func (c *cluster) launchOn(store state.Store, leader *Shared, names ...string) {
	c.t.Helper()
	for _, name := range names {
		l := state.Launch{ID: name, Kind: state.KindApply, Created: time.Now(), Runs: []state.PlannedRun{{ID: "run-" + name, Task: name}}}
		if _, err := store.Apply(c.t.Context(), state.Create(state.LaunchKey(name), state.Encode(l))); err != nil {
			c.t.Fatal(err)
		}
		if err := leader.Start(c.t.Context(), l); err != nil {
			c.t.Fatal(err)
		}
	}
}

// by counts the runs that each instance has carried out.
func (c *cluster) by() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, id := range c.ran {
		n[id]++
	}
	return n
}

func (c *cluster) runner(id string) (r state.Runner, there bool) {
	stored, err := state.Read[state.Runner](c.t.Context(), c, state.RunnerKey(id))
	if err != nil {
		c.t.Fatal(err)
	}
	return stored.Data, stored.Exists()
}

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
		c := newCluster(t)
		dead := state.Runner{ID: "b", Definition: "same", Parallel: 2, Room: 2, Since: time.Now(), Until: time.Now().Add(10 * time.Minute)}
		if _, err := c.Apply(t.Context(), state.Create(state.RunnerKey("b"), state.Encode(dead))); err != nil {
			t.Fatal(err)
		}
		a, stop := c.instance("a", "same")
		defer stop()
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3", "4", "5")
		time.Sleep(2 * time.Second)
		if status, _ := a.Status(t.Context(), []string{"3"}); !status["3"].Running || len(c.by()) != 1 || c.by()["a"] != 2 || !slices.Equal(c.open(), []string{"3", "4"}) {
			t.Fatalf("launch 3 is %+v; carried out: %v; open are %v", status["3"], c.by(), c.open())
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
		c := newCluster(t)
		dead := state.Runner{ID: "b", Definition: "same", Parallel: 1, Room: 1, Since: time.Now(), Until: time.Now().Add(10 * time.Minute)}
		if _, err := c.Apply(t.Context(), state.Create(state.RunnerKey("b"), state.Encode(dead))); err != nil {
			t.Fatal(err)
		}
		a, stop := c.instance("a", "same")
		defer stop()
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3 * time.Second)
		c.launch(a, "1", "2", "3")
		time.Sleep(2 * time.Second)
		open, err := state.Read[state.Open](t.Context(), c, state.OpenKey("3"))
		if err == nil {
			_, err = c.Apply(t.Context(), state.Delete(open.Record))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if status, _ := a.Status(t.Context(), []string{"3"}); status["3"].Running || c.by()["a"] != 2 {
			t.Errorf("launch 3 is %+v; carried out: %v", status["3"], c.by())
		}
		if err := a.Start(t.Context(), open.Data.Launch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
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
		time.Sleep(time.Second)
		stopSharing()
		b, stopB := c.instance("b", "same")
		defer stopB()
		time.Sleep(30 * time.Second)
		if by := c.by(); by["a"] != 3 {
			t.Errorf("what waits at an instance that no longer leads begins there: %v", by)
		}
		// The new leader finds a launch that the old one has opened, and starts it itself.
		l := c.opens("4", "other")
		defer b.Share(t.Context(), c.Apply)()
		if err := b.Start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if c.by()["b"] != 1 || len(c.open()) != 0 {
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
		c.opens("2", "same")
		c.opens("3", "same")
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

func TestShared_LaunchThatIsTakenAtTheLastMomentBeginsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		dead := state.Runner{ID: "b", Definition: "same", Parallel: 1, Room: 1, Since: time.Now(), Until: time.Now().Add(10 * time.Minute)}
		if _, err := c.Apply(t.Context(), state.Create(state.RunnerKey("b"), state.Encode(dead))); err != nil {
			t.Fatal(err)
		}
		a, stop := c.instance("a", "same")
		defer stop()
		defer a.Share(t.Context(), c.Apply)()
		time.Sleep(3500 * time.Millisecond)
		c.launch(a, "1", "2", "3")
		time.Sleep(9950 * time.Millisecond) // the leader has room in a moment, and reads at whole and half seconds
		open, err := state.Read[state.Open](t.Context(), c, state.OpenKey("3"))
		if err == nil {
			_, err = c.Apply(t.Context(), state.Delete(open.Record))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c.by()["a"] != 2 {
			t.Errorf("carried out: %v", c.by())
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
		c.launch(a, "1", "2", "3", "4", "5", "6")
		c.breaks(errors.New("the store does not answer"))
		time.Sleep(3 * time.Second)
		if by := c.by(); by["a"] != 2 || by["b"] != 0 {
			t.Errorf("carried out: %v", by)
		}
		c.breaks(nil)
		time.Sleep(time.Minute)
		if by := c.by(); by["a"]+by["b"] != 6 || by["b"] == 0 || len(c.open()) != 0 {
			t.Errorf("then carried out: %v; open are %v", by, c.open())
		}
	})
}

func (c *cluster) breaks(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

// open returns the launches that are open.
func (c *cluster) open() (ids []string) {
	records, err := c.List(c.t.Context(), state.OpenPrefix)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, record := range records {
		ids = append(ids, strings.TrimPrefix(record.Key, state.OpenPrefix))
	}
	return ids
}

// opens writes an open launch.
func (c *cluster) opens(id, works string) state.Launch {
	c.t.Helper()
	l := state.Launch{ID: id, Kind: state.KindApply, Created: time.Now(), Runs: []state.PlannedRun{{ID: "run-" + id, Task: id}}}
	if _, err := c.Apply(c.t.Context(), state.Create(state.OpenKey(id), state.Encode(state.Open{Launch: l, Works: works}))); err != nil {
		c.t.Fatal(err)
	}
	return l
}
