package launch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	changed map[string]int    // by key: the version
	news    chan struct{}     // closed by the next write
	broken  error             // of each request
	hitches map[string]*hitch // by request, such as "delete open/ID" or "list open/": of the next one
	ran     map[string]string // by run: the instance
	most    map[string]int    // by instance: runs at a time
	now     map[string]int
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, records: map[string]state.Record{}, changed: map[string]int{}, news: make(chan struct{}), hitches: map[string]*hitch{}, ran: map[string]string{}, most: map[string]int{}, now: map[string]int{}}
}

// hitch is what happens to a request.
type hitch struct {
	came chan struct{} // closed when the request has come
	goOn chan struct{} // the request waits until this is closed
	lost bool          // there is no answer, although a change is made
}

// delays has the next such request wait before it does anything.
func (c *cluster) delays(request string) *hitch {
	h := &hitch{came: make(chan struct{}), goOn: make(chan struct{})}
	c.hitch(request, h)
	return h
}

// loses has the answer to the next such request get lost.
func (c *cluster) loses(request string) {
	h := &hitch{came: make(chan struct{}), goOn: make(chan struct{}), lost: true}
	close(h.goOn)
	c.hitch(request, h)
}

func (c *cluster) hitch(request string, h *hitch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hitches[request] = h
}

// requested waits if a request is to wait, and returns the error that it gets in the end.
func (c *cluster) requested(request string) error {
	c.mu.Lock()
	h := c.hitches[request]
	delete(c.hitches, request)
	c.mu.Unlock()
	if h == nil {
		return nil
	}
	close(h.came)
	<-h.goOn
	if h.lost {
		return errors.New("the answer is lost")
	}
	return nil
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
	for key, rec := range c.records {
		if strings.HasPrefix(key, prefix) {
			all = append(all, rec)
		}
	}
	err = c.broken
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b state.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, errors.Join(err, c.requested("list "+prefix)) // as it was when the request came
}

// Await implements state.Awaiter.
func (c *cluster) Await(ctx context.Context, prefix, mark string) (string, error) {
	for {
		c.mu.Lock()
		version, broken, news := 0, c.broken, c.news
		for key, v := range c.changed {
			if strings.HasPrefix(key, prefix) {
				version = max(version, v)
			}
		}
		c.mu.Unlock()
		if next := strconv.Itoa(version); broken != nil || next != mark {
			return next, broken
		}
		select {
		case <-ctx.Done():
			return mark, ctx.Err()
		case <-news:
		}
	}
}

func (c *cluster) Apply(_ context.Context, changes ...state.Change) ([]state.Record, error) {
	var lost error
	for _, change := range changes {
		switch change.Op {
		case state.OpCreate:
			lost = errors.Join(lost, c.requested("create "+change.Key))
		case state.OpDelete:
			lost = errors.Join(lost, c.requested("delete "+change.Key))
		}
	}
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
		c.changed[change.Key] = c.version
		if change.Op == state.OpDelete {
			delete(c.records, change.Key)
			continue
		}
		written[i] = state.Record{Key: change.Key, Value: change.Value, Version: strconv.Itoa(c.version)}
		c.records[change.Key] = written[i]
	}
	c.tellAll()
	return written, lost
}

// tellAll ends what waits for changes. The caller holds the lock.
func (c *cluster) tellAll() {
	close(c.news)
	c.news = make(chan struct{})
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

// launchFor returns a launch of one run that is for an instance until a time, or for any.
func launchFor(name, instance string, until time.Time) state.Launch {
	return state.Launch{ID: name, Kind: state.KindApply, Created: time.Now(), For: instance, ForUntil: until, Runs: []state.PlannedRun{{ID: "run-" + name, Task: name}}}
}

// launch writes launches of one run each, and starts them at the leader.
func (c *cluster) launch(leader *Shared, names ...string) {
	c.t.Helper()
	c.meant(leader, "", names...)
}

// meant writes launches that are for an instance, and starts them at the leader.
func (c *cluster) meant(leader *Shared, instance string, names ...string) {
	c.t.Helper()
	c.meantUntil(leader, instance, time.Time{}, names...)
}

// meantUntil writes launches that are for an instance until a time, and starts them at the leader.
func (c *cluster) meantUntil(leader *Shared, instance string, until time.Time, names ...string) {
	c.t.Helper()
	for _, name := range names {
		l := launchFor(name, instance, until)
		if _, err := leader.Store.Apply(c.t.Context(), state.Create(state.LaunchKey(name), state.Encode(l))); err != nil {
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

func (c *cluster) breaks(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	c.tellAll()
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

// runs reports whether a launch counts as under way.
func (c *cluster) runs(leader *Shared, launch string) bool {
	status, err := leader.Status(c.t.Context(), []string{launch})
	if err != nil {
		c.t.Fatal(err)
	}
	return status[launch].Running
}

// tick does what the leader does if a run has ended.
func (c *cluster) tick(leader *Shared) {
	select {
	case <-leader.Ended():
		c.startsAgain(leader)
	default:
	}
}

// startsAgain starts the launches again that nobody has begun, as a tick does.
func (c *cluster) startsAgain(leader *Shared) {
	launches, err := c.List(c.t.Context(), "launch/")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, record := range launches {
		l, err := state.Decode[state.Launch](record)
		if err != nil {
			c.t.Fatal(err)
		}
		c.mu.Lock()
		begun := c.ran[l.Data.Runs[0].ID] != ""
		c.mu.Unlock()
		if begun || c.runs(leader, l.Data.ID) {
			continue
		}
		if err := leader.Start(c.t.Context(), l.Data); err != nil {
			c.t.Fatal(err)
		}
	}
}

// roomComes waits until the runs that have begun by now have ended.
func (c *cluster) roomComes() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// announces writes the record of an instance that does nothing. It works with the same as the leader, and carries
// out two runs at a time.
func (c *cluster) announces(r state.Runner) {
	c.t.Helper()
	r.Definition, r.Parallel, r.Since = cmp.Or(r.Definition, "same"), 2, time.Now()
	if r.Until.IsZero() {
		r.Until = time.Now().Add(10 * time.Minute)
	}
	stored, err := state.Read[state.Runner](c.t.Context(), c, state.RunnerKey(r.ID))
	if err == nil {
		_, err = c.Apply(c.t.Context(), stored.Write(r))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// besideADeadOne starts a leader beside an instance that counts as there, and takes nothing.
func besideADeadOne(t *testing.T) (c *cluster, leader *Shared, stop func()) {
	c = newCluster(t)
	c.announces(state.Runner{ID: "b", Room: 2})
	leader, stopA := c.instance("a", "same")
	stopSharing := leader.Share(t.Context(), c.Apply)
	synctest.Wait()
	return c, leader, func() {
		stopSharing()
		stopA()
	}
}

// takes takes an open launch as another instance does.
func (c *cluster) takes(id string) state.Launch {
	c.t.Helper()
	open, err := state.Read[state.Open](c.t.Context(), c, state.OpenKey(id))
	if err == nil {
		c.mu.Lock()
		delete(c.hitches, "delete "+open.Key)
		c.mu.Unlock()
		_, err = c.Apply(c.t.Context(), state.Delete(open.Record))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return open.Data.Launch
}

// opens writes launches of one run each, which are open.
func (c *cluster) opens(works string, names ...string) {
	c.t.Helper()
	var changes []state.Change
	for _, name := range names {
		l := launchFor(name, "", time.Time{})
		changes = append(changes, state.Create(state.LaunchKey(name), state.Encode(l)), state.Create(state.OpenKey(name), state.Encode(state.Open{Launch: l, Works: works})))
	}
	if _, err := c.Apply(c.t.Context(), changes...); err != nil {
		c.t.Fatal(err)
	}
}
