package consul

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// The test makes every change of a catalog and names the
// conditions that it triggers.
func TestObserve_WhatTriggers(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	web := api.AgentService{ID: "web-1", Service: "web", Port: 80, Tags: []string{"a", "b"}}
	register(t, s, "n1", web, checkOf("web-1", "passing"))
	putKey(t, s, "cfg/a", "1")

	conditions := map[string]condition.Spec{
		"names":    services("web", "missing"),
		"regexp":   matching("^we"),
		"critical": condition.Services{{Names: []string{"web"}, Filter: `Checks.Status == "critical"`}},
		"criticre": func() condition.Services { s := matching("web"); s[0].Filter = `Checks.Status == "critical"`; return s }(),
		"catalog":  condition.CatalogServices{Regexp: "web|late"},
		"key":      condition.ConsulKV{Path: "cfg/a"},
		"prefix":   condition.ConsulKV{Path: "/cfg", Recurse: true},
	}
	look := func() map[string]string {
		digests := map[string]string{}
		for name, cond := range conditions {
			digests[name] = observe(t, c, query(t, cond)).Digest
			if got := snapshot(t, c, task(cond)).Condition.Digest; got != digests[name] {
				t.Fatalf("%s: Snapshot and Observe disagree", name)
			}
		}
		return digests
	}
	steps := []struct {
		name     string
		do       func()
		triggers string
	}{
		{"nothing", func() {}, ""},
		{"the output of a check", func() {
			c := checkOf("web-1", "passing")
			c.Output = "HTTP GET: 200 OK"
			register(t, s, "n1", api.AgentService{}, c)
		}, ""},
		{"a warning, which hides an instance", func() { register(t, s, "n1", api.AgentService{}, checkOf("web-1", "warning")) }, "names regexp"},
		{"a failing check", func() { register(t, s, "n1", api.AgentService{}, checkOf("web-1", "critical")) },
			"critical criticre"},
		{"a recovery", func() { register(t, s, "n1", api.AgentService{}, checkOf("web-1", "passing")) },
			"names regexp critical criticre"},
		{"a port", func() { web.Port = 81; register(t, s, "n1", web) }, "names regexp"},
		{"a tag", func() { web.Tags = []string{"b", "c"}; register(t, s, "n1", web) }, "names regexp"},
		{"the order of tags", func() { web.Tags = []string{"c", "b"}; register(t, s, "n1", web) }, ""},
		{"meta", func() { web.Meta = map[string]string{"k": "v"}; register(t, s, "n1", web) }, "names regexp"},
		{"the node's address", func() {
			put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.9"})
		}, "names regexp"},
		{"the node's meta", func() {
			put(t, s, &api.CatalogRegistration{Node: "n1", Address: "10.0.0.9", NodeMeta: map[string]string{"k": "v"}})
		}, "names regexp"},
		{"another service", func() {
			put(t, s, &api.CatalogRegistration{Node: "n2", Address: "10.0.0.2", Service: &api.AgentService{Service: "other"}})
		}, ""},
		{"a service that matches", func() {
			put(t, s, &api.CatalogRegistration{Node: "n2", Address: "10.0.0.2", Service: &api.AgentService{Service: "late"}})
		}, "catalog"},
		{"a second instance of it", func() {
			put(t, s, &api.CatalogRegistration{Node: "n2", Address: "10.0.0.2", Service: &api.AgentService{ID: "late-2", Service: "late", Tags: []string{"new"}}})
		}, ""},
		{"a value", func() { putKey(t, s, "cfg/a", "2") }, "key prefix"},
		{"flags of a key", func() {
			if _, err := s.Client().KV().Put(&api.KVPair{Key: "cfg/a", Value: []byte("2"), Flags: 7}, nil); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a key with the prefix", func() { putKey(t, s, "cfg2", "x") }, "prefix"},
		{"another key", func() { putKey(t, s, "other", "x") }, ""},
		{"a deleted key", func() {
			if _, err := s.Client().KV().Delete("cfg/a", nil); err != nil {
				t.Fatal(err)
			}
		}, "key prefix"},
		{"a deregistration", func() {
			if _, err := s.Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "n1", ServiceID: "web-1"}, nil); err != nil {
				t.Fatal(err)
			}
		}, "names regexp catalog"},
	}
	before := look()
	for _, step := range steps {
		step.do()
		after := look()
		for name := range conditions {
			triggered := before[name] != after[name]
			if want := strings.Contains(" "+step.triggers+" ", " "+name+" "); triggered != want {
				t.Errorf("%s: %s triggers: %v, want %v", step.name, name, triggered, want)
			}
		}
		before = after
	}
}

func TestObserve_OrderDoesNotChangeTheDigest(t *testing.T) {
	tags := []string{"a", "b", "c", "d"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "1")
		rand.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
		list := `["` + strings.Join(tags, `","`) + `"]`
		if strings.HasSuffix(r.URL.Path, "/catalog/services") {
			fmt.Fprintf(w, `{"web": %s}`, list)
			return
		}
		instances := []string{"1", "2", "3"}
		rand.Shuffle(3, func(i, j int) { instances[i], instances[j] = instances[j], instances[i] })
		for i, id := range instances {
			instances[i] = fmt.Sprintf(`{"Node":{"Node":"n"},"Service":{"ID":"%s","Service":"web","Tags":%s}}`, id, list)
		}
		fmt.Fprintf(w, "[%s]", strings.Join(instances, ","))
	}))
	defer server.Close()
	c := client(t, server.URL)
	for _, cond := range []condition.Spec{services("web"), matching("web"), condition.CatalogServices{Regexp: ""}} {
		first := observe(t, c, query(t, cond)).Digest
		rendered := fmt.Sprint(snapshot(t, c, task(cond)).Blocks)
		for range 20 {
			if observe(t, c, query(t, cond)).Digest != first {
				t.Fatalf("%T: the digest depends on the order", cond)
			}
			if got := fmt.Sprint(snapshot(t, c, task(cond)).Blocks); got != rendered {
				t.Fatalf("%T: what is rendered depends on the order: %s and %s", cond, got, rendered)
			}
		}
	}
}

func TestQuery_IDsDiffer(t *testing.T) {
	regexp := func(e, filter string) condition.Services { return condition.Services{{Regexp: &e, Filter: filter}} }
	different := []condition.Spec{
		services(), services("a"), services("a", "b"), services("ab"), regexp("", ""), regexp("a", ""), regexp("a", "b"),
		condition.Services{{Names: []string{"a"}, Datacenter: "d"}}, condition.Services{{Names: []string{"a"}, Namespace: "d"}},
		condition.Services{{Names: []string{"a"}, Filter: "d"}},
		condition.Services{{Names: []string{"a"}, CTSUserDefinedMeta: map[string]string{"k": "v"}}},
		condition.CatalogServices{Regexp: "a"}, condition.CatalogServices{Regexp: "a", Namespace: "n"},
		condition.CatalogServices{Regexp: "a", NodeMeta: map[string]string{"k": "v"}},
		condition.CatalogServices{Regexp: "a", NodeMeta: map[string]string{"k": "v", "l": ""}},
		condition.ConsulKV{Path: "a"}, condition.ConsulKV{Path: "a", Recurse: true},
		condition.ConsulKV{Path: "a", Recurse: true, Namespace: "one"}, condition.ConsulKV{Path: "a", Recurse: true, Namespace: "two"},
		condition.ConsulKV{Path: "a", Datacenter: "one"},
		condition.Schedule{Cron: "@daily"},
	}
	seen := map[string]condition.Spec{}
	for _, cond := range different {
		id := query(t, cond).ID()
		if other, ok := seen[id]; ok {
			t.Errorf("%+v and %+v are taken for the same", cond, other)
		}
		seen[id] = cond
		for _, r := range id {
			if r <= ' ' || r > '~' {
				t.Errorf("the ID %q is not printable", id)
			}
		}
	}
	if query(t, services("b", "a", "b")).ID() != query(t, services("a", "b")).ID() {
		t.Error("the order of names makes another query")
	}
	if _, ok := ConditionQuery(&config.Task{}); ok {
		t.Error("a task without a condition has a query")
	}
}

func TestObserve_ScheduleReadsItsModuleInputs(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	putKey(t, s, "a", "1")
	cron := task(condition.Schedule{Cron: "@daily"})
	cron.ModuleInputs = []condition.Spec{
		services("web"),
		condition.ConsulKV{Path: "a"},
	}
	q, ok := ConditionQuery(cron)
	if !ok {
		t.Fatal("no query")
	}
	empty := observe(t, c, q)
	register(t, s, "n1", api.AgentService{Service: "web"})
	one := observe(t, c, q)
	putKey(t, s, "a", "2")
	two := observe(t, c, q)
	if empty.Digest == one.Digest || one.Digest == two.Digest {
		t.Error("a change of a module input was not seen")
	}
	if got := differs(one, two).String(); got != "keys: ~a" {
		t.Error(got)
	}
	if snapshot(t, c, cron).Condition.Digest != two.Digest {
		t.Error("Snapshot and Observe disagree")
	}
	bare, ok := ConditionQuery(task(condition.Schedule{}))
	if a := c.Observe(t.Context(), []Query{bare})[0]; !ok || a.Err != nil || a.Digest == "" {
		t.Errorf("a schedule without module inputs: %+v", a)
	}
}

func TestObserve_ReadsEqualViewsOnceAndIsolatesFailures(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	bad := services("web")
	bad[0].Filter = "not a filter"
	meta := services("web")
	meta[0].CTSUserDefinedMeta = map[string]string{"k": "v"}
	var queries []Query
	for _, cond := range []condition.Spec{services("web", "db"), services("web"), bad, meta, matching("nothing"), matching("consul")} {
		queries = append(queries, query(t, cond))
	}
	for i, a := range c.Observe(t.Context(), queries) {
		if (a.Err != nil) != (i == 2) {
			t.Errorf("query %d: %v", i, a.Err)
		}
	}
	want := map[string]int{"/v1/health/service/web": 2, "/v1/health/service/db": 1,
		"/v1/catalog/services": 1, "/v1/health/service/consul": 1}
	if got := proxy.Requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("requests = %v, want %v", got, want)
	}
}

func TestObserve_ThousandServicesTakeFewConnections(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	var queries []Query
	for i := range 1000 {
		queries = append(queries, query(t, services(fmt.Sprintf("service-%d", i))))
	}
	queries = append(queries, query(t, condition.ConsulKV{Path: "a"}), query(t, condition.ConsulKV{Path: "b"}))
	watch := c.Watch(t.Context(), BlockGates(queries), nil)
	for range 4 { // as several runs at a time would
		t.Run("observe", func(t *testing.T) {
			t.Parallel()
			for _, a := range c.Observe(t.Context(), queries) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := proxy.PeakConnections(); n > maxConns {
			t.Errorf("%d connections were open at the same time", n)
		}
		if _, err := watch.Marks(); err != nil {
			t.Error(err)
		}
	})
}

// The proxy counts the requests.
func TestPoll_IdlePollTakesFewRequests(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	named := func(n int) (queries []Query) {
		for i := range n {
			queries = append(queries, query(t, services(fmt.Sprintf("service-%d", i))))
		}
		return queries
	}
	keys := []Query{query(t, condition.ConsulKV{Path: "a"}), query(t, condition.ConsulKV{Path: "b", Recurse: true})}
	for _, test := range []struct {
		name    string
		queries []Query
		want    int
	}{
		{"1 service is read itself", named(1), 1},
		{"2 services", named(2), 2},
		{"100 services", named(100), 2},
		{"10,000 services", named(10000), 2},
		{"a regular expression", []Query{query(t, matching(""))}, 2},
		{"with keys", append(named(100), keys...), 3},
		{"1 key is read itself", keys[:1], 1},
		{"nothing", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := PollGates(test.queries)
			before, err := c.Poll(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			proxy.Reset()
			after, err := c.Poll(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			if n := proxy.Total(); n != test.want || set.Len() != n {
				t.Errorf("%d requests: %v", n, proxy.Requests())
			}
			moved := set.Moved(before, after)
			for _, q := range test.queries {
				if moved(q) {
					t.Error("something moved in an idle Consul")
				}
			}
			if len(after) > 3 {
				t.Errorf("marks grow with the queries: %v", after)
			}
		})
	}
}
