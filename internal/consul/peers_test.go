package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const peer = "cluster-02"

// twoPeers are two real Consuls. The second exports web, with three instances, and db to the first.
func twoPeers(t *testing.T, options ...consultest.Option) (here, there *consultest.Server) {
	t.Helper()
	here = consultest.Start(t, append(options, consultest.WithPeering())...)
	there = consultest.Start(t, append(options, consultest.WithPeering(), consultest.WithData(), consultest.WithHCL(`datacenter = "west"`))...)
	fillPeer(t, there)
	here.ImportFrom(there, peer)
	here.Imported(peer, "web", 3)
	here.Imported(peer, "db", 1)
	return here, there
}

func fillPeer(t *testing.T, s *consultest.Server) {
	t.Helper()
	for i := range 3 {
		put(t, s, &api.CatalogRegistration{ID: fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", i+1), Node: fmt.Sprintf("n%d", i+1), Address: "10.0.0.1", Service: &api.AgentService{ID: fmt.Sprintf("web-%d", i+1), Service: "web", Port: 80, Tags: []string{fmt.Sprintf("v%d", i)}}})
	}
	put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{Service: "db"}})
	s.Export("web", "db")
}

var (
	webOfPeer   = condition.Services{{Names: []string{"web"}, Peer: peer}}
	allOfPeer   = condition.Services{{Regexp: new(""), Peer: peer}}
	namesOfPeer = condition.CatalogServices{Regexp: ".*", Peer: peer}
	peerSpecs   = map[string]condition.Spec{"by name": webOfPeer, "by expression": allOfPeer, "names": namesOfPeer}
)

// hasty is a client for which a loss of a peer settles at once.
func hasty(t *testing.T, s *consultest.Server) *Client {
	t.Helper()
	c := clientOf(t, config.Consul{Address: s.Addr(), Token: s.Token()})
	c.settle = 10 * time.Millisecond
	return c
}

func elements(t *testing.T, c *Client, spec condition.Spec) []string {
	t.Helper()
	a := c.Observe(t.Context(), []Query{query(t, spec)})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	names := []string{}
	for name := range a.Elements {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func deregister(t *testing.T, s *consultest.Server, node, id string) {
	t.Helper()
	if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: node, ServiceID: id}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestPeer_InstancesHaveNamesOfTheirOwn(t *testing.T) {
	here, there := twoPeers(t)
	register(t, here, "n1", api.AgentService{ID: "web-1", Service: "web", Port: 81})
	c := hasty(t, here)
	for spec, want := range map[string][]string{
		"by name":       {"web-1.n1.west.cluster-02", "web-2.n2.west.cluster-02", "web-3.n3.west.cluster-02"},
		"by expression": {"db.n1.west.cluster-02", "web-1.n1.west.cluster-02", "web-2.n2.west.cluster-02", "web-3.n3.west.cluster-02"},
		"names":         {"db", "web"},
	} {
		if diff := cmp.Diff(want, elements(t, c, peerSpecs[spec])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
	if got := elements(t, c, services("web")); !slices.Equal(got, []string{"web-1.n1.dc1"}) {
		t.Errorf("without peer: %q", got)
	}
	snap, err := c.Snapshot(t.Context(), task(webOfPeer))
	if err != nil {
		t.Fatal(err)
	}
	if of := snap.Blocks[0].Entries.(condition.Instances)[1]; of.NodeID != "00000000-0000-0000-0000-000000000002" {
		t.Errorf("the id of the node %s is %q", of.Node, of.NodeID)
	}
	snap, err = c.Snapshot(t.Context(), task(namesOfPeer))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(condition.CatalogEntries{{Name: "db", Tags: []string{}}, {Name: "web", Tags: []string{"v0", "v1", "v2"}}}, snap.Blocks[0].Entries); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	// An exported service without instances is none, as in a catalog.
	there.Export("web", "db", "ghost")
	here.Eventually("the ghost is exported", exported(here, "ghost"))
	if got := elements(t, c, namesOfPeer); !slices.Equal(got, []string{"db", "web"}) {
		t.Errorf("with a service without instances: %q", got)
	}
	ghost := condition.Services{{Names: []string{"ghost"}, Peer: peer}}
	if err := confirm(t, c, ghost, nil); err != nil {
		t.Errorf("a service that has no instances: %v", err)
	}
}

func exported(s *consultest.Server, name string) func() error {
	return func() error {
		p, _, err := s.Client().Peerings().Read(context.Background(), peer, nil)
		if err == nil && (p == nil || !slices.Contains(p.StreamStatus.ImportedServices, name)) {
			err = fmt.Errorf("%q is not exported", name)
		}
		return err
	}
}

// Each step is one state of a peering, in which what was applied is missing from answers, or not.
func TestPeer_BrokenPeeringIsAnOutageAndNoLoss(t *testing.T) {
	here, there := twoPeers(t)
	c := hasty(t, here)
	before := map[string][]string{}
	for name, spec := range peerSpecs {
		before[name] = sources(t, c, spec)
	}
	local := query(t, condition.CatalogServices{Regexp: "^consul$"})
	// judge expects the same of each kind of condition.
	judge := func(when, says string, transient bool) {
		t.Helper()
		for name, spec := range peerSpecs {
			err := confirm(t, c, spec, before[name])
			switch {
			case says == "" && err != nil:
				t.Errorf("%s, %s: %v", when, name, err)
			case says == "":
			case err == nil || !strings.Contains(err.Error(), says):
				t.Errorf("%s, %s: %v; want %q", when, name, err, says)
			case fault.IsTransient(err) != transient, IsUnavailable(err), IsForbidden(err):
				t.Errorf("%s, %s: transient %v, unavailable %v: %v", when, name, fault.IsTransient(err), IsUnavailable(err), err)
			}
		}
		if a := c.Observe(t.Context(), []Query{local})[0]; a.Err != nil {
			t.Errorf("%s: the catalog of this cluster: %v", when, a.Err)
		}
	}
	judge("at rest", "", false)

	there.Stop()
	here.PeeringState(peer, "FAILING")
	judge("the peer is down", "the peer does not answer", true)
	there.Restart()
	here.PeeringState(peer, "ACTIVE")
	judge("it is back", "", false)

	here.EndPeering(peer)
	judge("the peering is deleted", "there is no peering with this name", false)

	if _, err := there.Client().Peerings().Delete(t.Context(), consultest.Importer, nil); err != nil {
		t.Fatal(err)
	}
	there.Eventually("the other side is free", func() error {
		if p, _, err := there.Client().Peerings().Read(t.Context(), consultest.Importer, nil); err != nil || p != nil {
			return fmt.Errorf("%v, %v", p, err)
		}
		return nil
	})
	if _, _, err := here.Client().Peerings().GenerateToken(t.Context(), api.PeeringGenerateTokenRequest{PeerName: peer}, nil); err != nil {
		t.Fatal(err)
	}
	judge("the peering is begun", "the peering is PENDING", true)
	here.EndPeering(peer)
	here.ImportFrom(there, peer)
	here.Imported(peer, "web", 3)
	here.Imported(peer, "db", 1)
	judge("it is established anew", "", false)

	there.Export()
	here.Imported(peer, "web", 0)
	here.Imported(peer, "db", 0)
	here.Eventually("nothing is exported", func() error {
		if exported(here, "web")() == nil {
			return fmt.Errorf("web still is")
		}
		return nil
	})
	judge("nothing is exported any more", "the peer exports no service to this cluster, or has not yet said which", true)
	there.Export("web", "db")
	here.Imported(peer, "web", 3)
	here.Imported(peer, "db", 1)
	judge("it is exported again", "", false)

	there.EndPeering(consultest.Importer)
	here.PeeringState(peer, "TERMINATED")
	judge("the peering is deleted on the other side", "it was deleted on one side", false)
}

func TestPeer_ServiceThatIsNotExportedAnyMore(t *testing.T) {
	here, there := twoPeers(t)
	c := hasty(t, here)
	before := map[string][]string{}
	for name, spec := range peerSpecs {
		before[name] = sources(t, c, spec)
	}
	there.Export("db")
	here.Imported(peer, "web", 0)
	here.Eventually("web is not exported", func() error {
		if exported(here, "web")() == nil {
			return fmt.Errorf("it still is")
		}
		return nil
	})
	// Who names a service needs it. Who reads what the peer exports follows that.
	err := confirm(t, c, webOfPeer, before["by name"])
	if err == nil || !strings.Contains(err.Error(), `read service "web" of peer cluster-02 from Consul`) || !strings.Contains(err.Error(), "the peer does not export it to this cluster") || IsUnavailable(err) || fault.IsTransient(err) {
		t.Errorf("by name: %v", err)
	}
	for _, name := range []string{"by expression", "names"} {
		if err := confirm(t, c, peerSpecs[name], before[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := elements(t, c, namesOfPeer); !slices.Equal(got, []string{"db"}) {
		t.Errorf("the names are %q", got)
	}
}

func TestPeer_LossOfInstancesCountsOnceItLasts(t *testing.T) {
	here, there := twoPeers(t)
	c := hasty(t, here)
	put(t, there, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.1", Service: &api.AgentService{ID: "web-4", Service: "web", Port: 81}})
	here.Imported(peer, "web", 4)
	before := sources(t, c, webOfPeer)
	deregister(t, there, "n3", "web-3")
	here.Imported(peer, "web", 3)
	if err := confirm(t, c, webOfPeer, before); err != nil {
		t.Errorf("one instance less: %v", err)
	}
	// While a run waits, the rest goes: so it is when a peering is being deleted on the other side. The
	// node of the lost instance has another one of the service.
	before = sources(t, c, webOfPeer)
	deregister(t, there, "n1", "web-4")
	here.Imported(peer, "web", 2)
	c.settle = 3 * time.Second
	snap, err := c.Snapshot(t.Context(), task(webOfPeer))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(300 * time.Millisecond)
		there.Client().Peerings().Delete(t.Context(), consultest.Importer, nil)
	}()
	if err := snap.Visibility.Confirm(t.Context(), before); err == nil || !strings.Contains(err.Error(), "peer") || IsForbidden(err) {
		t.Errorf("a loss that goes on is applied: %v", err)
	}
}

func TestPeer_EstablishedAnewIsAnotherCluster(t *testing.T) {
	here, there := twoPeers(t)
	c := hasty(t, here)
	for _, k := range condition.Kinds {
		if _, has := reflect.Indirect(reflect.ValueOf(k.Keys())).Type().FieldByName("Peer"); has != slices.ContainsFunc(slices.Collect(maps.Values(peerSpecs)), func(s condition.Spec) bool { return s.Kind() == k }) {
			t.Errorf("a condition %q can be about a peer: %v; add it to peerSpecs", k.Name, has)
		}
	}
	for name, spec := range peerSpecs {
		input := &config.Task{Name: "t", ModuleInputs: []condition.Spec{spec}}
		for _, of := range []*config.Task{task(spec), input} {
			if places := Places(of); !slices.Equal(places, []string{"peer:cluster-02"}) {
				t.Errorf("%s: a task with condition %v and inputs %v reads %q", name, of.Condition.Spec, of.ModuleInputs, places)
			}
		}
	}
	place := condition.Scope{Peer: peer}.Place()
	first, err := c.Identify(t.Context(), place)
	if err != nil || first.Cluster == "" {
		t.Fatal(first, err)
	}
	there.Stop()
	here.PeeringState(peer, "FAILING")
	if again, err := c.Identify(t.Context(), place); err != nil || first.Replaced(again) != "" {
		t.Errorf("a peer that does not answer is taken for another one: %+v, %v", again, err)
	}
	here.EndPeering(peer)
	if gone, err := c.Identify(t.Context(), place); err == nil {
		t.Errorf("a deleted peering is %+v", gone)
	}
	other := consultest.Start(t, consultest.WithPeering(), consultest.WithHCL(`datacenter = "west"`))
	fillPeer(t, other)
	here.ImportFrom(other, peer)
	here.Imported(peer, "web", 3)
	second, err := c.Identify(t.Context(), place)
	if err != nil || first.Replaced(second) == "" {
		t.Errorf("another cluster of the same name is taken for the first one: %+v, %v", second, err)
	}
	here.EndPeering(peer)
	other.EndPeering(consultest.Importer)
	here.ImportFrom(other, peer)
	here.Imported(peer, "web", 3)
	if third, err := c.Identify(t.Context(), place); err != nil || second.Replaced(third) == "" {
		t.Errorf("a peering that was established anew is taken for the earlier one: %+v, %v", third, err)
	}
}

func TestPeer_GatesMissNoRenderedChange(t *testing.T) {
	here, there := twoPeers(t)
	c := hasty(t, here)
	var queries []Query
	for _, spec := range []condition.Spec{webOfPeer, allOfPeer, namesOfPeer, condition.Services{{Names: []string{"web"}, Peer: peer, Filter: `Checks.Status == "critical"`}}} {
		queries = append(queries, query(t, spec))
	}
	polled, held := PollGates(queries), BlockGates(queries)
	if want := []string{"imported of peer cluster-02", "peering of peer cluster-02"}; !slices.Equal(polled.Keys(), want) || !slices.Equal(held.Keys(), want) {
		t.Fatalf("the gates are %q and %q, want %q", polled.Keys(), held.Keys(), want)
	}
	w := c.watch(t.Context(), held, nil, pace{wait: time.Minute, poll: 50 * time.Millisecond, spacing: time.Millisecond, minBackoff: time.Millisecond, maxBackoff: time.Millisecond})
	random := newCatalog(t, there, 5)
	poll := func() Marks {
		marks, err := c.Poll(t.Context(), polled)
		if err != nil {
			t.Fatal(err)
		}
		return marks
	}
	observe := func() []string {
		var all []string
		for _, a := range c.Observe(t.Context(), queries) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			all = append(all, a.Digest)
		}
		return all
	}
	steady := func() ([]string, Marks) {
		marks := poll()
		digests := observe()
		for range 100 { // imported shortly after it was changed there
			time.Sleep(5 * time.Millisecond)
			now := observe()
			if slices.Equal(now, digests) {
				return digests, marks
			}
			digests = now
		}
		return digests, marks
	}
	before, marks := steady()
	var seen Marks
	for range 100 {
		if seen, _ = w.Marks(); seen[held.gates[0].Key] != "" && seen[held.gates[1].Key] != "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	changes := 0
	for n := range changesMade() {
		did := random.step()
		if n%20 == 10 {
			there.Export(slices.Concat([]string{"db"}, []string{"web", "unwatched"}[:1+n/20%2])...)
			did += ", and export others"
		}
		time.Sleep(15 * time.Millisecond)
		after, _ := steady()
		now := poll()
		for i, q := range queries {
			if before[i] == after[i] {
				continue
			}
			changes++
			if !polled.Moved(marks, now)(q) {
				t.Errorf("%s: query %d changed, and no gate moved", did, i)
			}
			woken := false
			for range 200 {
				shown, _ := w.Marks()
				if woken = held.Moved(seen, shown)(q); woken {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if !woken {
				t.Errorf("%s: query %d changed, and no held gate moved", did, i)
			}
		}
		before, marks = after, now
		time.Sleep(15 * time.Millisecond)
		seen, _ = w.Marks()
	}
	if changes == 0 {
		t.Fatal("nothing was tried")
	}
	t.Logf("%d rendered changes, all seen", changes)

	there.Stop()
	here.PeeringState(peer, "FAILING")
	if now := poll(); !polled.Moved(marks, now)(queries[0]) {
		t.Error("no gate moves when the peer does not answer any more")
	}
}

// A stand-in between client and server answers about the peering in its own way.
func standIn(t *testing.T, s *consultest.Server, answer http.HandlerFunc) (*Client, *atomic.Int64) {
	t.Helper()
	target, _ := url.Parse("http://" + s.Addr())
	through := httputil.NewSingleHostReverseProxy(target)
	asked := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/peering/") {
			asked.Add(1)
			answer(w, r)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := clientOf(t, config.Consul{Address: strings.TrimPrefix(srv.URL, "http://"), Token: s.Token()})
	c.timeout = 200 * time.Millisecond
	return c, asked
}

func TestPeer_AnswerThatIsSlowOrGarbledConcernsThePeerAlone(t *testing.T) {
	here, _ := twoPeers(t)
	local := query(t, services("consul"))
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 200ms"},
		"garbled": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "7")
			w.Write([]byte("<html>"))
		}, "the answer is not one of Consul"},
		"an internal error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) }, "boom"},
		"an empty object": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "7")
			w.Write([]byte("{}"))
		}, "in an unknown state"},
	} {
		c, asked := standIn(t, here, test.answer)
		queries := []Query{local, query(t, webOfPeer), query(t, allOfPeer)}
		gates := PollGates(queries)
		// What the peer has sent may still be arriving, which moves gates, too.
		moves, rounds := true, int64(0)
		for ; moves && rounds < 20; rounds++ {
			marks, err := c.Poll(t.Context(), gates)
			if err != nil {
				t.Errorf("%s: the gates: %v", name, err)
			}
			answers := c.Observe(t.Context(), queries)
			if answers[0].Err != nil {
				t.Errorf("%s: the catalog of this cluster: %v", name, answers[0].Err)
			}
			for _, a := range answers[1:] {
				if a.Err == nil || !strings.Contains(a.Err.Error(), test.says) || !fault.IsTransient(a.Err) || IsUnavailable(a.Err) {
					t.Errorf("%s: %v", name, a.Err)
				}
			}
			again, err := c.Poll(t.Context(), gates)
			if err != nil {
				t.Errorf("%s: the gates: %v", name, err)
			}
			moves = gates.Moved(marks, again)(queries[1])
		}
		if moves {
			t.Errorf("%s: the gates move although nothing has changed", name)
		}
		if name == "slow" && asked.Load() != rounds {
			t.Errorf("%d requests in %d readings wait for nothing", asked.Load(), rounds)
		}
	}
}

func TestPeer_Rights(t *testing.T) {
	here, there := twoPeers(t, consultest.WithACLs())
	admin := hasty(t, here)
	before := map[string][]string{}
	for name, spec := range peerSpecs {
		before[name] = sources(t, admin, spec)
	}
	const enough = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } peering = "read"`
	token, rights := reader(t, here, "peers", enough)
	token.settle = 10 * time.Millisecond
	check := func(when, says string) {
		t.Helper()
		for name, spec := range peerSpecs {
			began := time.Now()
			err := confirm(t, token, spec, before[name])
			switch {
			case says == "" && err != nil:
				t.Errorf("%s, %s: %v", when, name, err)
			case says != "" && (!IsForbidden(err) || !strings.Contains(err.Error(), says)):
				t.Errorf("%s, %s: %v; want %q", when, name, err, says)
			}
			if took := time.Since(began); took > 9*time.Second {
				t.Errorf("%s, %s: it takes %s to find out", when, name, took)
			}
		}
	}
	check("with every right", "")
	grant(t, here, rights, `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`)
	check("without peering", "peering:read")
	grant(t, here, rights, enough)
	check("with it again", "")
	for lacks, rules := range map[string]string{
		"nodes":        `service_prefix "" { policy = "read" } peering = "read"`,
		"services":     `node_prefix "" { policy = "read" } peering = "read"`,
		"one service":  enough + ` service "other" { policy = "deny" }`,
		"all but web":  `service "web" { policy = "read" } node_prefix "" { policy = "read" } peering = "read"`,
		"some of both": enough + ` node "other" { policy = "deny" }`,
	} {
		grant(t, here, rights, rules)
		check("without "+lacks, condition.ImportedNeeds)
	}
	grant(t, here, rights, enough)
	deregister(t, there, "n3", "web-3")
	here.Imported(peer, "web", 2)
	check("one less", "")
	// One node that the anonymous token may not read hides all that is imported, and Consul does not say so.
	open := policy(t, here, "open", enough+` node "other" { policy = "deny" }`)
	link := &api.ACLToken{AccessorID: "00000000-0000-0000-0000-000000000002", Policies: []*api.ACLLink{{ID: open.ID}}}
	if _, _, err := here.Client().ACL().TokenUpdate(link, nil); err != nil {
		t.Fatal(err)
	}
	anonymous := hasty(t, here)
	anonymous.resolved.Token = ""
	for name, spec := range peerSpecs {
		if err := confirm(t, anonymous, spec, before[name]); !IsForbidden(err) || !strings.Contains(err.Error(), "there is no token") {
			t.Errorf("without a token, %s: %v", name, err)
		}
	}
}

func TestPeer_WhatIfItWereGone(t *testing.T) {
	here, _ := twoPeers(t)
	register(t, here, "n1", api.AgentService{ID: "web-1", Service: "web"})
	c := hasty(t, here)
	specs := []condition.Spec{services("web"), webOfPeer, allOfPeer, namesOfPeer}
	var tasks []*config.Task
	for _, spec := range specs {
		tasks = append(tasks, task(spec))
	}
	const local, web, all, names = 0, 1, 2, 3
	for gone, want := range map[condition.Gone][]int{
		{Peer: peer}:                       {web, all, names},
		{Peer: "cluster-03"}:               nil,
		{Service: "db", Peer: peer}:        {all, names},
		{Instance: "web-1", Peer: "c*"}:    {web, all},
		{Instance: "web-1"}:                {local, web, all},
		{Node: "n1", Datacenter: "dc1"}:    {local},
		{Service: "web", Datacenter: "w*"}: {web, all, names},
	} {
		s, err := c.Suppose(t.Context(), tasks, condition.WhatIf{Without: []condition.Gone{gone}})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := range tasks {
			is, err := s.Concerned(i)
			if err != nil {
				t.Fatalf("%v: %v", gone, err)
			}
			if is {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("without %s: concerned are %v, want %v", gone, got, want)
		}
	}
	one := `{"Node": {"Node": "n9", "Address": "10.0.0.9", "Datacenter": "west"}, "Service": {"ID": "web-9", "Service": "web", "PeerName": "cluster-02"}}`
	s, err := c.Suppose(t.Context(), tasks, condition.WhatIf{With: []json.RawMessage{json.RawMessage(one)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{local: false, web: true, all: true, names: false} {
		if is, err := s.Concerned(i); is != want || err != nil {
			t.Errorf("with another instance of the peer: task %d is concerned: %v, %v", i, is, err)
		}
	}
}
