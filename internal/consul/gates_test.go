package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// catalog changes a Consul at random.
type catalog struct {
	t      testing.TB
	server *consultest.Server
	api    *api.Client
	*rand.Rand
}

func newCatalog(t testing.TB, s *consultest.Server, seed uint64) *catalog {
	return &catalog{t: t, server: s, api: s.Client(), Rand: rand.New(rand.NewPCG(seed, 0))}
}

func (c *catalog) one(of ...string) string { return of[c.IntN(len(of))] }

// step makes one change and says which.
func (c *catalog) step() string {
	node := c.one("n1", "n2", "n3")
	service := c.one("web", "db", "unwatched")
	id := service + c.one("-1", "-2")
	key := c.one("cfg/a", "cfg/b", "cfg2", "one", "two", "state/x")
	status := c.one("passing", "warning", "critical")

	r := &api.CatalogRegistration{Node: node, SkipNodeUpdate: true, Address: "10.0.0.1"}
	registered := func() api.AgentService {
		return api.AgentService{ID: id, Service: service, Port: c.IntN(3), Address: c.one("", "1.1.1.1"),
			Tags: []string{c.one("a", "b")}, Meta: map[string]string{"k": c.one("1", "2")}}
	}
	var err error
	var did string
	switch c.IntN(16) {
	case 0, 1, 2:
		s := registered()
		r.Service = &s
		did = fmt.Sprintf("register %s on %s", id, node)
	case 3:
		s := registered()
		r.Service = &s
		r.Check = &api.AgentCheck{Node: node, CheckID: "c-" + id, ServiceID: id, Status: status}
		did = fmt.Sprintf("register %s on %s, %s", id, node, status)
	case 4, 5:
		// A check of a service that is not there is refused: no change.
		r.Check = &api.AgentCheck{Node: node, CheckID: "c-" + id, ServiceID: id, Status: status, Output: c.one("x", "y")}
		did = fmt.Sprintf("check of %s on %s is %s", id, node, status)
		if _, e := c.api.Catalog().Register(r, nil); e != nil {
			did += " (refused)"
		}
		return did
	case 6:
		r.Check = &api.AgentCheck{Node: node, CheckID: c.one("node", "_node_maintenance"), Status: status}
		did = fmt.Sprintf("check of node %s is %s", node, status)
	case 7:
		r.SkipNodeUpdate = false
		r.Address = c.one("10.0.0.1", "10.0.0.2")
		r.NodeMeta = map[string]string{"rack": c.one("1", "2")}
		r.TaggedAddresses = map[string]string{"lan": c.one("10.0.0.1", "10.0.0.2")}
		did = "change node " + node
	case 8:
		_, err = c.api.Catalog().Deregister(&api.CatalogDeregistration{Node: node, ServiceID: id}, nil)
		did, r = fmt.Sprintf("deregister %s on %s", id, node), nil
	case 9:
		d := &api.CatalogDeregistration{Node: node, CheckID: c.one("node", "_node_maintenance", "c-"+id)}
		if c.IntN(3) == 0 {
			d.CheckID = ""
		}
		_, err = c.api.Catalog().Deregister(d, nil)
		did, r = fmt.Sprintf("deregister check %q on %s", d.CheckID, node), nil
	case 10:
		_, err = c.api.KV().Put(&api.KVPair{Key: key, Value: []byte(c.one("1", "2")), Flags: c.Uint64N(2)}, nil)
		did, r = "put "+key, nil
	case 11:
		_, err = c.api.KV().Delete(key, nil)
		did, r = "delete "+key, nil
	case 12:
		_, _, err = c.api.ConfigEntries().Set(intentions(service, c.one("a", "b")), nil)
		did, r = "set the intentions of "+service, nil
	case 13:
		_, _, err = c.api.ConfigEntries().Set(&api.ServiceConfigEntry{Kind: api.ServiceDefaults, Name: service, MaxInboundConnections: 1 + c.IntN(2)}, nil)
		did, r = "set the defaults of "+service, nil
	case 14:
		kind := c.one(api.ServiceIntentions, api.ServiceDefaults)
		_, err = c.api.ConfigEntries().Delete(kind, service, nil)
		did, r = fmt.Sprintf("delete %s %s", kind, service), nil
	case 15:
		putResource(c.t, c.server, "multicluster/v2/exportedservices/"+service, fmt.Sprintf(`{"services": [%q], "consumers": [{"peer": "p"}]}`, c.one("a", "b")))
		did, r = "export "+service, nil
	}
	if r != nil {
		_, err = c.api.Catalog().Register(r, nil)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", did, err)
	}
	return did
}

// watched are queries of every kind.
func watched(t testing.TB) []Query {
	critical := services("web")
	critical[0].Filter = `Checks.Status == "critical"`
	every := matching("^(web|db)$")
	every[0].Filter = `Checks.Status != "x"`
	port := services("web", "db")
	port[0].Filter = `Service.Port == 1`
	var queries []Query
	for _, cond := range []condition.Spec{
		condition.Nodes{}, condition.Nodes{NodeMeta: map[string]string{"rack": "1"}, IgnoreHealth: true}, condition.Nodes{Status: []string{"critical", "maintenance"}},
		services("web"), services("web", "db", "missing"), critical, every, port, matching("^d"),
		condition.CatalogServices{Regexp: "web|db"}, condition.CatalogServices{NodeMeta: map[string]string{"rack": "1"}},
		condition.ConsulKV{Path: "cfg/a"}, condition.ConsulKV{Path: "cfg", Recurse: true}, condition.ConsulKV{Path: "one"},
		condition.ConsulKV{Path: "", Recurse: true},
		condition.ConfigEntries{Of: "service-intentions", Name: "web"}, condition.ConfigEntries{Of: "service-intentions"},
		condition.ConfigEntries{Of: "service-defaults", Regexp: "^(web|db)$"}, condition.ConfigEntries{Of: "service-defaults"},
		condition.ConfigEntries{Of: "service-defaults", Name: "db"},
		condition.ConsulKV{Path: "cfg/b"}, condition.ConsulKV{Path: "cfg2"}, condition.ConsulKV{Path: "two"}, condition.ConsulKV{Path: "state/", Recurse: true},
	} {
		queries = append(queries, query(t, cond))
	}
	return queries
}

func digests(t testing.TB, c *Client, queries []Query) []string {
	t.Helper()
	var list []string
	for _, a := range c.Observe(t.Context(), queries) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		list = append(list, a.Digest)
	}
	return list
}

// changesMade is how many random changes are made.
func changesMade() int {
	if testtools.All() {
		return 300
	}
	return 100
}

func TestPoll_MissesNoRenderedChange(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	catalog := newCatalog(t, s, 1)
	queries := watched(t)
	// All behind common gates, and each on its own.
	sets := []GateSet{PollGates(queries)}
	for _, q := range queries {
		sets = append(sets, PollGates([]Query{q}))
	}
	poll := func() []Marks {
		var all []Marks
		for _, set := range sets {
			marks, err := c.Poll(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(marks)
			if err != nil {
				t.Fatal(err)
			}
			var kept Marks // as they are kept between processes
			if err := json.Unmarshal(text, &kept); err != nil {
				t.Fatal(err)
			}
			all = append(all, kept)
		}
		return all
	}
	changes, still := 0, 0
	before, marks := digests(t, c, queries), poll()
	for range 2 * changesMade() {
		did := catalog.step()
		after, now := digests(t, c, queries), poll()
		if any := slices.ContainsFunc(queries, sets[0].Moved(marks[0], now[0])); any != sets[0].AnyMoved(marks[0], now[0]) {
			t.Errorf("%s: some query has moved: %v, and AnyMoved says %v", did, any, !any)
		}
		for i, q := range queries {
			together := sets[0].Moved(marks[0], now[0])(q)
			alone := sets[i+1].Moved(marks[i+1], now[i+1])(q)
			if !together {
				still++
			}
			if before[i] == after[i] {
				continue
			}
			changes++
			if !together {
				t.Errorf("%s: query %d changed, its gates did not move", did, i)
			}
			if !alone {
				t.Errorf("%s: query %d changed, a gate of its own did not move", did, i)
			}
		}
		before, marks = after, now
	}
	if changes == 0 || still == 0 {
		t.Fatalf("%d changes, %d times unmoved: nothing was tried", changes, still)
	}
	t.Logf("%d rendered changes, all seen", changes)
}

func TestBlock_MissesNoRenderedChange(t *testing.T) {
	queries := watched(t)
	// Few keys are held open themselves, all of them by the root.
	blockMissesNoChange(t, changesMade(), queries, queries, append(queries[:13:13], queries[15:17]...))
}

func TestBlock_MissesNoChangeBehindFolders(t *testing.T) {
	queries := watched(t)
	folders := append(queries[11:14:14], queries[20:]...)
	if n := BlockGates(folders).Len(); n != 4 {
		t.Fatalf("%d gates", n)
	}
	blockMissesNoChange(t, changesMade(), queries, folders)
}

// blockMissesNoChange makes random changes, and expects that gates of each of the sets of
// queries move.
func blockMissesNoChange(t *testing.T, steps int, queries []Query, of ...[]Query) {
	t.Helper()
	s := consultest.Start(t)
	c := client(t, s.Addr())
	catalog := newCatalog(t, s, 2)
	var sets []GateSet
	for _, set := range of {
		sets = append(sets, BlockGates(set))
	}
	changes := 0
	before := digests(t, c, queries)
	for range steps {
		type woken struct{ set, gate int }
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		wakes := make(chan woken, 100)
		ended := make(chan struct{}, 100)
		running := 0
		for i, set := range sets {
			for j, gate := range set.gates {
				mark, index, err := c.mark(ctx, gate)
				if err != nil || index == 0 {
					t.Fatal(index, err)
				}
				running++
				go func() {
					defer func() { ended <- struct{}{} }()
					if a, err := c.block(ctx, request{Request: gate.Request}, index, time.Minute); err == nil && gate.indexMark(a) != mark {
						wakes <- woken{i, j}
					}
				}()
			}
		}
		// A question that arrives after the change is answered at once and
		// proves less. Most arrive before.
		time.Sleep(3 * time.Millisecond)
		did := catalog.step()
		after := digests(t, c, queries)

		open := map[[2]int]bool{}
		for i := range sets {
			for k := range queries {
				if before[k] != after[k] && slices.ContainsFunc(of[i], func(q Query) bool { return q.ID() == queries[k].ID() }) {
					changes++
					open[[2]int{i, k}] = true
				}
			}
		}
		for len(open) > 0 && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case w := <-wakes:
				gate := sets[w.set].gates[w.gate]
				for at := range open {
					for _, p := range queries[at[1]].parts {
						if at[0] == w.set && gate.concerns(p) {
							delete(open, at)
						}
					}
				}
			}
		}
		for at := range open {
			t.Errorf("%s: query %d changed, and set %d slept on", did, at[1], at[0])
		}
		cancel()
		for range running {
			<-ended
		}
		before = after
	}
	if changes == 0 {
		t.Fatal("nothing was tried")
	}
	t.Logf("%d rendered changes, all seen", changes)
}

func TestMoved_QueriesBehindTheGate(t *testing.T) {
	web, db := query(t, services("web", "api")), query(t, condition.Services{{Names: []string{"a", "b"}, Datacenter: "dc2"}})
	kv := query(t, condition.ConsulKV{Path: "a"})
	set := PollGates([]Query{web, db, kv})
	full := Marks{}
	for _, g := range set.gates {
		full[g.Key] = "index 7"
	}
	with := func(key, mark string) Marks {
		m := Marks{}
		for k, v := range full {
			m[k] = v
		}
		m[key] = mark
		return m
	}
	check := func(name string, before, after Marks, want ...bool) {
		t.Helper()
		moved := set.Moved(before, after)
		for i, q := range []Query{web, db, kv} {
			if moved(q) != want[i] {
				t.Errorf("%s: query %d moved: %v", name, i, moved(q))
			}
		}
	}
	check("nothing", full, full, false, false, false)
	check("first look", nil, full, true, true, true)
	check("nothing could be read", full, nil, true, true, true)
	check("a higher index", full, with("nodes", "index 8"), true, false, false)
	check("a lower index", full, with("checks-critical in datacenter dc2", "index 6"), false, true, false)
	check("no index", with("nodes", ""), with("nodes", ""), true, false, false)
	moved := set.Moved(full, full)
	if !moved(query(t, condition.ConsulKV{Path: "b"})) || !moved(query(t, condition.Services{{Names: []string{"a"}, Namespace: "n"}})) {
		t.Error("a query that is behind no gate of the set is taken for unmoved")
	}
	if moved(query(t, services("new"))) {
		t.Error("the gates of a catalog stand for all its services")
	}
}

func TestPollGates_NamespacesHaveTheirOwnGates(t *testing.T) {
	var keys []string
	in := func(ns string) Query {
		return query(t, condition.Services{{Names: []string{"a", "b"}, Namespace: ns}})
	}
	for _, g := range PollGates([]Query{in("one"), in("two")}).gates {
		keys = append(keys, g.Key)
	}
	want := "[nodes checks-critical in namespace one checks-critical in namespace two]"
	if fmt.Sprint(keys) != want {
		t.Errorf("gates = %v, want %s", keys, want)
	}
}

func TestPoll_ReturnsTheMarksOfReadableGates(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	here, mars := query(t, services("a", "b")), query(t, condition.Services{{Names: []string{"a", "b"}, Datacenter: "mars"}})
	set := PollGates([]Query{here, mars})
	before, err := c.Poll(t.Context(), set)
	if !isBadQuery(err) || len(before) != 2 {
		t.Fatalf("Poll = %v, %v", before, err)
	}
	after, _ := c.Poll(t.Context(), set)
	moved := set.Moved(before, after)
	if moved(here) || !moved(mars) {
		t.Errorf("moved: %v %v", moved(here), moved(mars))
	}
	for _, a := range set.About() {
		failed := GateError(err, a.Key)
		if far := a.Datacenter == "mars"; far != isBadQuery(failed) || far != (failed != nil) || far != (after.Index(a.Key) == 0) {
			t.Errorf("gate %+v has the index %d and the error %v", a, after.Index(a.Key), failed)
		}
	}
}

func TestAbout_NamesWhatAGateWatches(t *testing.T) {
	kv := query(t, condition.ConsulKV{Path: "app", Recurse: true, Datacenter: "mars"})
	var names []string
	for _, set := range []GateSet{BlockGates([]Query{query(t, services("a", "b"))}), PollGates([]Query{kv}), PollGates([]Query{query(t, services("a"))})} {
		for _, a := range set.About() {
			names = append(names, strings.TrimSpace(a.Name+" "+a.Datacenter))
		}
	}
	want := []string{"nodes", "names of services", "health checks", `keys with prefix "app" mars`, `service "a"`}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the gates are called (-want +got):\n%s", diff)
	}
}

func TestPoll_RestartedConsulHasMoved(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	for i := range 20 {
		register(t, s, "n", api.AgentService{Service: "web", Port: i})
	}
	q := query(t, services("web", "db"))
	set := PollGates([]Query{q})
	before, err := c.Poll(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	s.Restart() // empty
	after, err := c.Poll(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	if !set.Moved(before, after)(q) {
		t.Errorf("%v and %v are taken for the same", before, after)
	}
}
