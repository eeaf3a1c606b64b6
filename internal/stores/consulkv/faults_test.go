package consulkv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/consulkv"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// treatment handles one request.
type treatment func(w http.ResponseWriter, r *http.Request, consul http.Handler)

// lost lets Consul execute the request, and loses the answer.
func lost(_ http.ResponseWriter, r *http.Request, consul http.Handler) {
	consul.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// doneAnd lets Consul execute the request, and answers something else.
func doneAnd(status int, body string) treatment {
	return func(w http.ResponseWriter, r *http.Request, consul http.Handler) {
		consul.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, body, status)
	}
}

func answered(status int, body string) treatment {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { http.Error(w, body, status) }
}

// link is a connection with faults between a store and Consul.
type link struct {
	consul http.Handler
	mu     sync.Mutex
	faults []treatment // of the next requests
	count  int
}

func (w *link) next(faults ...treatment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults, w.count = faults, 0
}

func (w *link) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

func (w *link) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.count++
	var f treatment
	if len(w.faults) > 0 {
		f, w.faults = w.faults[0], w.faults[1:]
	}
	w.mu.Unlock()
	if f == nil {
		w.consul.ServeHTTP(rw, r)
		return
	}
	f(rw, r, w.consul)
}

func times(n int, f treatment) []treatment {
	var all []treatment
	for range n {
		all = append(all, f)
	}
	return all
}

// behind returns a store behind a link, and one with a direct connection.
func behind(t *testing.T) (*consulkv.Store, *link, *consulkv.Store) {
	t.Helper()
	server := consultest.Start(t)
	w := &link{consul: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Addr()})}
	front := httptest.NewServer(w)
	t.Cleanup(front.Close)
	return open(t, front.Listener.Addr().String(), "cts"), w, open(t, server.Addr(), "cts")
}

func apply(t *testing.T, s state.Store, changes ...state.Change) []state.Record {
	t.Helper()
	records, err := s.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func expect(t *testing.T, s state.Store, want state.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want.Key, diff)
	}
}

func conflict(t *testing.T, err error, current *state.Record) {
	t.Helper()
	refused, ok := errors.AsType[*state.ConflictError](err)
	if !ok {
		t.Fatalf("%v, want a conflict", err)
	}
	if diff := cmp.Diff(current, refused.Current); diff != "" {
		t.Errorf("what stood in the way (-want +got):\n%s", diff)
	}
}

// says expects an error that contains all of what, and is transient or not.
func says(t *testing.T, err error, passes bool, what ...string) {
	t.Helper()
	if err == nil || fault.IsTransient(err) != passes {
		t.Fatalf("%v: passes by itself is %t, want %t", err, fault.IsTransient(err), passes)
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func TestApply_LostAnswerOfAWrite(t *testing.T) {
	s, w, _ := behind(t)
	for name, f := range map[string]treatment{"no answer": lost, "an error after the effect": doneAnd(500, "leadership lost while committing log")} {
		key := "task/" + strings.ReplaceAll(name, " ", "-")
		w.next(f)
		a := apply(t, s, state.Create(key, []byte("1")))[0]
		expect(t, s, a)
		w.next(f, f) // the same value: only the write itself differs
		a = apply(t, s, state.Replace(a, []byte("1")))[0]
		expect(t, s, a)
		w.next(f)
		ab := apply(t, s, state.Replace(a, []byte("2")), state.Create(key+"/b", nil).Until(time.Now().Add(time.Hour)))
		expect(t, s, ab[0])
		if ab[0].Version != ab[1].Version {
			t.Errorf("one transaction wrote versions %s and %s", ab[0].Version, ab[1].Version)
		}
		w.next(f)
		apply(t, s, state.Check(ab[0]))
		w.next(f)
		apply(t, s, state.Delete(ab[0]), state.Create(key+"/c", nil))
	}
}

func TestApply_LostAnswerOfADelete(t *testing.T) {
	s, w, other := behind(t)
	a := apply(t, s, state.Create("task/a", nil))[0]
	w.next(lost)
	_, err := s.Apply(t.Context(), state.Delete(a))
	says(t, err, true, "write record task/a", "EOF")
	if _, err := other.Get(t.Context(), "task/a"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("the record: %v", err)
	}
	_, err = s.Apply(t.Context(), state.Delete(a))
	conflict(t, err, nil)
}

func TestApply_LostAnswerDoesNotHideOtherWrites(t *testing.T) {
	s, w, other := behind(t)
	a := apply(t, s, state.Create("task/a", []byte("1")))[0]
	var theirs state.Record
	w.next(func(rw http.ResponseWriter, r *http.Request, consul http.Handler) {
		consul.ServeHTTP(httptest.NewRecorder(), r)
		mine, err := other.Get(context.Background(), "task/a")
		if err != nil {
			t.Error(err)
		}
		records, err := other.Apply(context.Background(), state.Replace(mine, []byte("theirs")))
		if err != nil {
			t.Error(err)
		} else {
			theirs = records[0]
		}
		panic(http.ErrAbortHandler)
	})
	_, err := s.Apply(t.Context(), state.Replace(a, []byte("2")))
	conflict(t, err, &theirs)

	// Two writers of the same value are still two.
	w.next(answered(500, "No cluster leader"), func(rw http.ResponseWriter, r *http.Request, consul http.Handler) {
		theirs = apply(t, other, state.Replace(theirs, []byte("same")))[0]
		consul.ServeHTTP(rw, r)
	})
	_, err = s.Apply(t.Context(), state.Replace(theirs, []byte("same")))
	conflict(t, err, &theirs)
}

func TestStore_RetriesTransientErrors(t *testing.T) {
	t.Parallel()
	s, w, _ := behind(t)
	rec := apply(t, s, state.Create("task/a", nil))[0]
	do := map[string]func() error{
		"read record task/a":  func() error { _, err := s.Get(t.Context(), "task/a"); return err },
		"list records task/":  func() error { _, err := s.List(t.Context(), "task/"); return err },
		"write record task/a": func() error { _, err := s.Apply(t.Context(), state.Check(rec)); return err },
	}
	for act, do := range do {
		for body, status := range map[string]int{
			"Your IP is issuing too many concurrent connections, please rate limit your calls": 429,
			"rpc error making call: rate limit reached, try again later":                       503,
			"No cluster leader": 500,
		} {
			w.next(times(2, answered(status, body))...)
			if err := do(); err != nil {
				t.Errorf("%s after two times %d: %v", act, status, err)
			}
		}
	}
	if testing.Short() {
		return
	}
	w.next(times(100, answered(500, "No cluster leader"))...)
	start := time.Now()
	_, err := s.Get(t.Context(), "task/a")
	if took := time.Since(start); took < 5*time.Second || took > 15*time.Second {
		t.Errorf("an election was waited for %s, want seconds", took)
	}
	says(t, err, true, "read record task/a in Consul's KV store at 127.0.0.1:", "has no leader")
	if n := w.requests(); n < 5 || n > 40 {
		t.Errorf("%d tries, want about one a second", n)
	}
	if !errors.Is(err, consul.ErrNoLeader) {
		t.Errorf("%v is not consul.ErrNoLeader", err)
	}
}

func TestStore_WaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s, w, _ := behind(t)
	hang := make(chan struct{})
	defer close(hang)
	for _, f := range []treatment{answered(500, "No cluster leader"), func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}} {
		w.next(times(100, f)...)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		_, err := s.Apply(ctx, state.Create("task/a", nil))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		says(t, err, false, "write record task/a")
	}
}

func TestStore_UnreachableConsul(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes as long as an election is waited for")
	}
	s := open(t, "127.0.0.1:1", "cts")
	_, err := s.List(t.Context(), "task/")
	says(t, err, true, "list records task/", "127.0.0.1:1", "consul.address")
}

func TestStore_ReportsAMissingRight(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	token := func(rules string) *consulkv.Store {
		t.Helper()
		client := server.Client()
		policy, _, err := client.ACL().PolicyCreate(&api.ACLPolicy{Name: fmt.Sprintf("p%d", time.Now().UnixNano()), Rules: rules}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, _, err := client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := consulkv.Open(config.Consul{Address: server.Addr(), Token: token.SecretID}, "consul-terraform-sync/a", "")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// The policy in the error message is sufficient.
	write := token(`key_prefix "consul-terraform-sync/a/terrapulse/" { policy = "write" }`)
	rec := apply(t, write, state.Create("task/a", []byte("1")).Until(time.Now().Add(time.Hour)))[0]
	apply(t, write, state.Check(rec), state.Create("task/b", nil))

	none := token(`key_prefix "consul-terraform-sync/a/terrapulse/.expiring" { policy = "write" }`)
	for _, key := range []string{"task/b", "task/none"} {
		_, err := none.Get(t.Context(), key)
		says(t, err, false, "read record "+key, `key_prefix "consul-terraform-sync/a/terrapulse/" { policy = "read" }`)
	}
	_, err := none.List(t.Context(), "task/")
	says(t, err, false, "list records task/", `policy = "read"`)
	_, err = none.Apply(t.Context(), state.Create("task/c", nil))
	says(t, err, false, "write record task/c", `policy = "write"`)
	if !consul.IsForbidden(err) {
		t.Errorf("%v is not forbidden", err)
	}

	read := token(`key_prefix "consul-terraform-sync/a/" { policy = "read" }`)
	if records, err := read.List(t.Context(), "task/"); err != nil || len(records) != 2 {
		t.Errorf("%v, %v", records, err)
	}
	_, err = read.Apply(t.Context(), state.Create("task/b", nil))
	says(t, err, false, "write record task/b", `policy = "write"`)
}

func TestApply_RecordIsAReadableKey(t *testing.T) {
	server := consultest.Start(t)
	client := server.Client()
	for path, folder := range map[string]string{
		"consul-terraform-sync/a": "consul-terraform-sync/a/terrapulse/", "/cts/": "cts/terrapulse/", "": "terrapulse/",
	} {
		s := open(t, server.Addr(), path)
		rec := apply(t, s, state.Create("task/web", []byte(`{"observed":"x"}`)))[0]
		pair, _, err := client.KV().Get(folder+"task/web", nil)
		if err != nil || pair == nil || string(pair.Value) != `{"observed":"x"}` || fmt.Sprint(pair.ModifyIndex) != rec.Version {
			t.Errorf("%s: %+v, %v", path, pair, err)
		}
	}
	// Keys of others below the path stay.
	if _, err := client.KV().Put(&api.KVPair{Key: "cts/terraform-env:web", Value: []byte("state")}, nil); err != nil {
		t.Fatal(err)
	}
	if records, err := open(t, server.Addr(), "cts").List(t.Context(), "task/"); err != nil || len(records) != 1 {
		t.Errorf("%v, %v", records, err)
	}
}

func TestApply_RemovesExpiredRecords(t *testing.T) {
	server := consultest.Start(t)
	first := open(t, server.Addr(), "cts")
	past, future := time.Now().Add(-3*time.Hour), time.Now().Add(3*time.Hour)
	later := apply(t, first, state.Create("run/later", nil).Until(future))[0] // sweeps, once an hour
	stays := apply(t, first, state.Create("run/stays", nil).Until(past))[0]
	longer := apply(t, first, state.Create("run/longer", nil).Until(past))[0]
	gone := apply(t, first, state.Create("run/gone", nil).Until(past))[0]
	var want []state.Record
	want = append(want, later)
	want = append(want, apply(t, first, state.Replace(longer, []byte("x")).Until(future))...)
	want = append(want, apply(t, first, state.Replace(stays, []byte("x")))...)
	apply(t, first, state.Delete(gone))
	want = append([]state.Record{apply(t, first, state.Create("run/gone", []byte("anew")))[0]}, want...)
	for i := range 50 { // more than one transaction removes
		apply(t, first, state.Create(fmt.Sprintf("old/%d", i), nil).Until(past))
	}
	other := apply(t, first, state.Create("task/a", nil))[0]

	next := open(t, server.Addr(), "cts") // another process
	apply(t, next, state.Replace(other, nil))
	if records, err := next.List(t.Context(), "old/"); err != nil || len(records) != 50 {
		t.Errorf("a write of what does not expire has swept: %d, %v", len(records), err)
	}
	apply(t, next, state.Create("launch/1", nil).Until(future))
	if records, err := next.List(t.Context(), "old/"); err != nil || len(records) != 0 {
		t.Errorf("%d records that have expired are left, %v", len(records), err)
	}
	got, err := next.List(t.Context(), "run/")
	if diff := cmp.Diff([]string{"run/gone", "run/later", "run/longer", "run/stays"}, keys(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	markers, _, err := server.Client().KV().Keys("cts/terrapulse/.expiring/", "", nil)
	if err != nil || len(markers) != 3 {
		t.Errorf("the list of what expires holds %q, %v; want three", markers, err)
	}
	for _, r := range want {
		expect(t, next, r)
	}
}

func keys(records []state.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.Key)
	}
	return all
}

func TestApply_ManyTransactionsOnOneRecord(t *testing.T) {
	s, _, other := behind(t)
	lease := apply(t, s, state.Create("lease/x", nil))[0]
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := []state.Store{s, other}[i%2].Apply(t.Context(), state.Check(lease), state.Create(fmt.Sprintf("task/%d", i), nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, err := s.List(t.Context(), "task/"); err != nil || len(got) != 40 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestApply_LargestNumberOfDeletes(t *testing.T) {
	s, _, _ := behind(t)
	var creates, deletes []state.Change
	for i := range state.MaxWrite {
		creates = append(creates, state.Create(fmt.Sprintf("task/%d", i), nil).Until(time.Now()))
	}
	for _, r := range apply(t, s, creates...) {
		deletes = append(deletes, state.Delete(r))
	}
	apply(t, s, deletes...)
}

// While servers elect a leader, writers wait. Confirmed writes are there afterwards: no increment
// is lost or made twice.
func TestApply_ElectionLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	servers := consultest.StartCluster(t)
	var first *consultest.Server
	var stores []*consulkv.Store
	for _, s := range servers {
		if s.Leads() && first == nil {
			first = s
			continue
		}
		stores = append(stores, open(t, s.Addr(), "cts"))
	}
	if len(stores) != 2 {
		t.Fatal("no server leads")
	}
	apply(t, stores[0], state.Create("counter/a", []byte("0")))
	var wg sync.WaitGroup
	const each = 300
	killed := make(chan struct{})
	for _, s := range stores {
		wg.Go(func() {
			if err := statetest.Increment(t.Context(), s, "counter/a", each/3); err != nil {
				t.Error(err)
			}
			<-killed
			if err := statetest.Increment(t.Context(), s, "counter/a", each-each/3); err != nil {
				t.Error(err)
			}
		})
	}
	first.Stop()
	close(killed)
	wg.Wait()
	for _, s := range stores {
		if r, err := s.Get(t.Context(), "counter/a"); err != nil || string(r.Value) != fmt.Sprint(2*each) {
			t.Errorf("the counter is %s, %v; want %d", r.Value, err, 2*each)
		}
	}
}
