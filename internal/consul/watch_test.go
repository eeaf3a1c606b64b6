package consul

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// quick is a pace for tests; a wait is long, so that nothing passes by luck.
var quick = pace{wait: 10 * time.Minute, poll: 20 * time.Millisecond, spacing: time.Millisecond,
	minBackoff: 5 * time.Millisecond, maxBackoff: 20 * time.Millisecond}

// signalled waits for a signal of the watch after which the condition holds.
func signalled(t *testing.T, w *Watch, what string, is func(Marks, error) bool) Marks {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-w.C():
			if marks, err := w.Marks(); is(marks, err) {
				return marks
			}
		case <-deadline:
			marks, err := w.Marks()
			t.Fatalf("no signal in time: %s (marks %v, error %v)", what, marks, err)
		}
	}
}

func complete(g GateSet) func(Marks, error) bool {
	return func(m Marks, err error) bool {
		for _, gate := range g.gates {
			if m[gate.Key] == "" {
				return false
			}
		}
		return err == nil
	}
}

func TestWatch_SignalsChanges(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	web, key := query(t, services("web")), query(t, condition.ConsulKV{Path: "a"})
	set := BlockGates([]Query{web, key})
	ctx, cancel := context.WithCancel(t.Context())
	w := c.watch(ctx, set, nil, quick)
	marks := signalled(t, w, "the first look", complete(set))

	changed := func(q Query) func(Marks, error) bool {
		return func(now Marks, err error) bool {
			moved := set.Moved(marks, now)(q)
			if err == nil && moved {
				marks = now
			}
			return moved
		}
	}
	for i := range 5 {
		register(t, s, "n", api.AgentService{Service: "web", Port: i})
		signalled(t, w, "a registration", changed(web))
		register(t, s, "n", api.AgentService{}, checkOf("web", []string{"critical", "passing"}[i%2]))
		signalled(t, w, "a check", changed(web))
		putKey(t, s, "a", fmt.Sprint(i))
		signalled(t, w, "a key", changed(key))
	}
	cancel()
	<-w.Done()

	// Where another one left off, nothing is news.
	eventually(t, "an idle catalog", func() bool {
		before, err := c.Poll(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		marks = before
		ctx, cancel := context.WithCancel(t.Context())
		w := c.watch(ctx, set, marks, quick)
		defer func() { cancel(); <-w.Done() }()
		select {
		case <-w.C():
			return false // Consul had something to write about itself
		case <-time.After(50 * time.Millisecond):
			return true
		}
	})
	putKey(t, s, "a", "while nobody looked")
	w = c.watch(t.Context(), set, marks, quick)
	signalled(t, w, "a change from before", changed(key))
}

func TestWatch_ContinuesAfterOutages(t *testing.T) {
	s := consultest.Start(t, consultest.WithData())
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	c.timeout = 200 * time.Millisecond
	web := query(t, services("web"))
	set := BlockGates([]Query{web})
	// A question that meets a server that hangs ends with its wait.
	pace := quick
	pace.wait = 500 * time.Millisecond
	w := c.watch(t.Context(), set, nil, pace)
	marks := signalled(t, w, "the first look", complete(set))

	for name, mode := range map[string]consultest.Mode{"cut": consultest.Cut, "failing": consultest.Failing, "hanging": consultest.Hanging} {
		t.Run(name, func(t *testing.T) {
			proxy.Set(consultest.Cut) // questions under way end
			proxy.Set(mode)
			signalled(t, w, "the outage", func(_ Marks, err error) bool { return fault.IsTransient(err) })
			register(t, s, "n", api.AgentService{Service: "web", Tags: []string{name}})
			proxy.Set(consultest.Working)
			marks = signalled(t, w, "the change during the outage", func(now Marks, err error) bool {
				return err == nil && set.Moved(marks, now)(web)
			})
		})
	}
	t.Run("restart", func(t *testing.T) {
		s.Stop()
		signalled(t, w, "the outage", func(_ Marks, err error) bool { return fault.IsTransient(err) })
		s.Restart()
		marks = signalled(t, w, "the end of the outage", func(_ Marks, err error) bool { return err == nil })
		register(t, s, "n", api.AgentService{Service: "web", Tags: []string{"after"}})
		signalled(t, w, "a change", func(now Marks, _ error) bool { return set.Moved(marks, now)(web) })
	})
}

func TestWatch_NoticesThatConsulWasReplaced(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for i := range 50 {
		register(t, s, "n", api.AgentService{Service: "web", Port: i})
	}
	set := BlockGates([]Query{query(t, services("web"))})
	w := c.watch(t.Context(), set, nil, quick)
	before := signalled(t, w, "the first look", complete(set))
	s.Restart() // empty: its indexes are far below what was seen
	signalled(t, w, "lower indexes", func(now Marks, err error) bool {
		return err == nil && now["services"] != before["services"]
	})
	now, _ := w.Marks()
	register(t, s, "n", api.AgentService{Service: "web"})
	signalled(t, w, "a change at a low index", func(later Marks, _ error) bool { return later["services"] != now["services"] })
}

// Consul answers the queries under way with what it showed before the restore. A query from that index on
// would wait in vain.
func TestWatch_NoticesThatConsulWasRestored(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	web, key := query(t, services("web")), query(t, condition.ConsulKV{Path: "a"})
	register(t, s, "n", api.AgentService{Service: "web"})
	putKey(t, s, "a", "1")
	snapshot, _, err := s.Client().Snapshot().Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	saved, err := io.ReadAll(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	set := BlockGates([]Query{web, key})
	w := c.watch(t.Context(), set, nil, quick)
	marks := signalled(t, w, "the first look", complete(set))
	register(t, s, "n", api.AgentService{Service: "web", Port: 80})
	putKey(t, s, "a", "2")
	marks = signalled(t, w, "changes", func(now Marks, _ error) bool {
		return set.Moved(marks, now)(web) && set.Moved(marks, now)(key)
	})
	// Consul answers a question that it gets after the restoration, with an index
	// from before it, when its wait ends. So both gates are held first.
	held := func() bool {
		now, _ := w.Marks()
		for gate, mark := range now {
			path := "/v1/kv/a"
			switch {
			case gate == "services":
				path = "/v1/catalog/services"
			case !strings.HasPrefix(gate, "view-"):
				continue
			}
			if !strings.Contains(proxy.Query(path)+"&", "index="+strings.TrimPrefix(mark, "index ")+"&") {
				return false
			}
		}
		return true
	}
	for began := time.Now(); !held(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the gates are not held")
		}
	}
	if err := s.Client().Snapshot().Restore(nil, bytes.NewReader(saved)); err != nil {
		t.Fatal(err)
	}
	signalled(t, w, "the catalog and the key of before", func(now Marks, _ error) bool {
		return set.Moved(marks, now)(web) && set.Moved(marks, now)(key)
	})
}

func TestWatch_DoesNotTrustAnIndexAcrossAnOutage(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return
		}
		if r.FormValue("index") != "" { // asked to wait; cut short now and then
			select {
			case <-time.After(20 * time.Millisecond):
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
			}
		}
		w.Header().Set("X-Consul-Index", "16")
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	set := BlockGates([]Query{query(t, services("web"))})
	w := client(t, server.URL).watch(t.Context(), set, nil, quick)
	before := signalled(t, w, "the first look", complete(set))
	away.Store(true)
	signalled(t, w, "an outage", func(_ Marks, err error) bool { return err != nil })
	away.Store(false) // it may be another Consul, which has come to the same index
	after := signalled(t, w, "its end", func(_ Marks, err error) bool { return err == nil })
	if q := query(t, services("web")); !set.Moved(before, after)(q) {
		t.Errorf("nothing counts as moved: %v", after)
	}
}

func TestWatch_DoesNotTrustAnIndexThatHasFallenInBetween(t *testing.T) {
	restored := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		index := "16"
		if r.FormValue("index") != "" {
			select {
			case <-restored: // receives once for each gate
				index = "5"
			case <-r.Context().Done():
			}
		}
		w.Header().Set("X-Consul-Index", index)
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server waits for its requests
	set := nodesOf(t, "")
	w := client(t, server.URL).watch(ctx, set, nil, quick)
	before := signalled(t, w, "the first read", complete(set))
	for range set.gates {
		restored <- struct{}{} // Consul reaches index 16 again before the next request
	}
	signalled(t, w, "all gates", func(now Marks, _ error) bool {
		for _, gate := range set.gates {
			if now[gate.Key] == before[gate.Key] {
				return false
			}
		}
		return true
	})
}

func TestWatch_MarkAboveConsulsIndexDoesNotBlock(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	set := BlockGates([]Query{query(t, services("web"))})
	since := Marks{}
	for _, g := range set.gates {
		since[g.Key] = "index 999999999"
	}
	w := c.watch(t.Context(), set, since, quick)
	signalled(t, w, "an index that has fallen", func(now Marks, _ error) bool { return now["nodes"] != since["nodes"] })
}

func TestWatch_PollsWithoutAnIndex(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.FormValue("index") != "" {
			t.Error("asked to wait for an index that does not exist")
		}
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	q := query(t, services("web"))
	set := BlockGates([]Query{q})
	ctx, cancel := context.WithCancel(t.Context())
	w := client(t, server.URL).watch(ctx, set, nil, quick)
	for range 3 {
		marks := signalled(t, w, "a look now and then", func(Marks, error) bool { return true })
		if !set.Moved(marks, marks)(q) {
			t.Error("without an index, nothing says that nothing has moved")
		}
	}
	cancel()
	<-w.Done()
}

func TestWatch_LostGateDoesNotStopOthers(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	here := query(t, services("web"))
	set := BlockGates([]Query{query(t, condition.Services{{Names: []string{"web"}, Datacenter: "mars"}}), here})
	w := c.watch(t.Context(), set, nil, quick)
	marks := signalled(t, w, "what is well", func(m Marks, err error) bool {
		return isBadQuery(err) && m["nodes"] != "" && m["services"] != "" && m["checks-any"] != ""
	})
	register(t, s, "n", api.AgentService{Service: "web"})
	signalled(t, w, "a change", func(now Marks, _ error) bool { return set.Moved(marks, now)(here) })
}

func TestWatch_PollsBeyondEightGates(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	var set GateSet
	for i := range 30 {
		one := BlockGates([]Query{query(t, condition.ConsulKV{Path: fmt.Sprintf("key-%d", i)})})
		set.gates = append(set.gates, one.gates...)
	}
	w := c.watch(t.Context(), set, nil, quick)
	signalled(t, w, "the first look", complete(set))
	for i := range 30 {
		before, _ := w.Marks()
		putKey(t, s, fmt.Sprintf("key-%d", i), "x")
		signalled(t, w, "a change", func(now Marks, _ error) bool { return !maps.Equal(before, now) })
	}
	if n := proxy.PeakConnections(); n > maxConns {
		t.Errorf("%d connections", n)
	}
}

func TestWatch_RequestsThatAreCutShortMakeNoStorm(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.FormValue("index") != "" {
			http.Error(w, "gateway timeout", http.StatusGatewayTimeout)
			return
		}
		w.Header().Set("X-Consul-Index", "7")
		fmt.Fprint(w, "[]")
	}))
	defer server.Close()
	slow := quick
	slow.minBackoff, slow.maxBackoff = time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	w := client(t, server.URL).watch(ctx, nodesOf(t, ""), nil, slow)
	eventually(t, "two rounds", func() bool { return asked.Load() == 4 })
	if _, err := w.Marks(); err != nil {
		t.Errorf("a question that something in between has cut short is taken for an outage: %v", err)
	}
	cancel()
	<-w.Done()
	if n := asked.Load(); n != 4 {
		t.Errorf("%d questions", n)
	}
}

// A Consul that hangs, or whose host vanishes without a reset, is found before the outage is unhealthy, and
// the outage begins with the last answer.
func TestWatch_ConsulThatIsSilentIsFoundWithinTwoMinutes(t *testing.T) {
	for _, asked := range []time.Duration{500 * time.Millisecond, 20 * time.Second, longWait - time.Second} {
		synctest.Test(t, func(t *testing.T) {
			consul := consultest.FallsSilent{From: time.Now().Add(longWait + asked)} // so long after the second request
			set := BlockGates([]Query{query(t, services("web")), query(t, condition.ConsulKV{Path: "a"})})
			w := client(t, "127.0.0.1:1").Over(consul).Watch(t.Context(), set, nil)
			time.Sleep(time.Until(consul.From))
			if _, err := w.Marks(); err != nil {
				t.Fatal(err)
			}
			for failing := 0; failing < set.Len(); {
				<-w.C()
				marks, err := w.Marks()
				failing = len(slices.DeleteFunc(set.Keys(), func(key string) bool { return GateError(err, key) == nil }))
				if found := time.Since(consul.From); found > 115*time.Second || failing == set.Len() && set.Sees(marks, err) {
					t.Fatalf("%s after a request, Consul falls silent; after %s %d of %d gates fail: %v", asked, found, failing, set.Len(), err)
				}
				if since := time.Now().Add(-Silence(err)); failing == set.Len() && since.After(consul.From.Add(time.Second)) {
					t.Errorf("%s after a request, Consul falls silent; the outage counts %s later", asked, since.Sub(consul.From))
				}
			}
		})
	}
}
