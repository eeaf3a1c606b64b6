package consul

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

var (
	artists = condition.Resources{Group: "demo", Version: "v2", Of: "artist"}
	exports = condition.Resources{Group: "multicluster", Version: "v2", Of: "exportedservices"}
)

func TestResources_ModuleGetsWhatPeopleWrote(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	send(t, s, http.MethodPut, "/api/demo/v2/artist/korn", `{"metadata": {"by": "me"}, "data": {"name": "Korn", "genre": "GENRE_METAL"}}`)
	putResource(t, s, "demo/v2/artist/kiss", `{"name": "Kiss", "genre": "GENRE_METAL"}`)
	putResource(t, s, "multicluster/v2/exportedservices/some", `{"services": ["web", "api"], "consumers": [{"peer": "p"}]}`)
	const korn = `{"data":{"genre":"GENRE_METAL","name":"Korn"},"id":{"name":"korn","tenancy":{"namespace":"default","partition":"default"},` +
		`"type":{"group":"demo","groupVersion":"v2","kind":"Artist"}},"metadata":{"by":"me"}}`
	const some = `{"data":{"consumers":[{"peer":"p"}],"services":["web","api"]},"id":{"name":"some","tenancy":{"namespace":"default","partition":"default"},` +
		`"type":{"group":"multicluster","groupVersion":"v2","kind":"ExportedServices"}}}`
	ko := artists
	ko.NamePrefix = "ko"
	for spec, want := range map[condition.Resources]map[string]string{ko: {"korn": korn}, exports: {"some": some}} {
		if diff := cmp.Diff(want, texts(t, c, spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
	if all := texts(t, c, artists); len(all) != 2 {
		t.Errorf("all artists are %v", all)
	}
}

func TestResources_OnlyContentCounts(t *testing.T) {
	s := consultest.Start(t)
	c := client(t, s.Addr())
	put := func(services string) {
		t.Helper()
		putResource(t, s, "multicluster/v2/exportedservices/some", `{"services": [`+services+`], "consumers": [{"peer": "p"}]}`)
	}
	put(`"web"`)
	q := query(t, exports)
	gates := PollGates([]Query{q})
	before := observe(t, c, q)
	marks, err := client(t, s.Addr()).Poll(t.Context(), gates)
	if err != nil {
		t.Fatal(err)
	}

	put(`"web", "api"`)
	changed := observe(t, c, q)
	got := Diff("resources", before.Elements, before.Details, changed).Entries()
	if len(got) != 1 || got[0].Group != "multicluster/v2/exportedservices" || got[0].Name != "some" || !slices.Equal(got[0].Attributes, []string{"services"}) {
		t.Errorf("the change is %+v", got)
	}
	if now, err := client(t, s.Addr()).Poll(t.Context(), gates); err != nil || !gates.Moved(marks, now)(q) {
		t.Errorf("the gate has not moved: %v", err)
	}

	// The same content, once with another version and once with another uid.
	for _, again := range []bool{false, true} {
		if again {
			send(t, s, http.MethodDelete, "/api/multicluster/v2/exportedservices/some", "")
			if gone := observe(t, c, q); len(gone.Elements) != 0 {
				t.Errorf("after the deletion there is %v", gone.Elements)
			}
		}
		put(`"web"`)
		if after := observe(t, c, q); after.Digest != before.Digest {
			t.Errorf("created again: %v: the same content has another digest", again)
		}
		if now, err := client(t, s.Addr()).Poll(t.Context(), gates); err != nil || gates.Moved(marks, now)(q) {
			t.Errorf("created again: %v: the gate has moved: %v", again, err)
		}
	}
}

func TestResources_UnknownKindIsAnErrorOfThePerson(t *testing.T) {
	s := consultest.Start(t)
	a := client(t, s.Addr()).Observe(t.Context(), []Query{query(t, condition.Resources{Group: "mesh", Version: "v2", Of: "no-such"})})[0]
	if !isBadQuery(a.Err) || !strings.Contains(a.Err.Error(), "check group, version and kind") {
		t.Error(a.Err)
	}
}

// Consul lists no resources there, as if all were gone.
func TestResources_MissingNamespaceIsAnErrorOfThePerson(t *testing.T) {
	s := consultest.Start(t)
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	here := client(t, s.Addr())
	elsewhere := artists
	elsewhere.Namespace = "team-a"
	for where, test := range map[string]struct {
		client *Client
		spec   condition.Resources
	}{
		"the namespace of a task":      {here, elsewhere},
		"the namespace of the client":  {clientOf(t, config.Consul{Address: s.Addr(), Namespace: "team-a"}), artists},
		"the partition of the client":  {clientOf(t, config.Consul{Address: s.Addr(), Partition: "p"}), artists},
		"exports in another partition": {clientOf(t, config.Consul{Address: s.Addr(), Partition: "p"}), exports},
	} {
		source := condition.Source{Scope: condition.Scope{Namespace: test.spec.Namespace}, Of: "demo/v2/artist", Name: "korn"}
		for _, before := range [][]string{nil, {source.String()}} {
			if err := confirm(t, test.client, test.spec, before); !isBadQuery(err) || !strings.Contains(err.Error(), "CONSUL_PARTITION") {
				t.Errorf("%s, %d sources before: %v", where, len(before), err)
			}
		}
	}
}

func TestResources_AnswerOfAnotherServerShowsNothing(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status": "ok"}`)) }))
	t.Cleanup(other.Close)
	a := client(t, strings.TrimPrefix(other.URL, "http://")).Observe(t.Context(), []Query{query(t, artists)})[0]
	if a.Err == nil || !strings.Contains(a.Err.Error(), "the answer is not one of Consul") {
		t.Error(a.Err)
	}
}

// Without a consistent read, such a server answers that there are no resources.
func TestResources_ServerWithoutLeaderShowsNothing(t *testing.T) {
	s := consultest.Start(t, consultest.WithoutLeader())
	c := client(t, s.Addr())
	a := c.Observe(t.Context(), []Query{query(t, artists)})[0]
	if !errors.Is(a.Err, ErrNoLeader) || !fault.IsTransient(a.Err) {
		t.Errorf("Observe = %v", a.Err)
	}
	if marks, err := c.Poll(t.Context(), PollGates([]Query{query(t, artists)})); err == nil {
		t.Errorf("Poll = %v", marks)
	}
}

// Consul does not say over this API that it hides something.
func TestResources_TokenThatMayReadAPart(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	admin := clientOf(t, config.Consul{Address: s.Addr(), Token: consultest.ManagementToken})
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	putResource(t, s, "demo/v2/artist/kiss", `{"name": "Kiss"}`)
	putResource(t, s, "multicluster/v2/exportedservices/some", `{"services": ["web"]}`)
	putResource(t, s, "multicluster/v2/exportedservices/more", `{"services": ["api"]}`)
	known := map[condition.Resources][]string{artists: sources(t, admin, artists), exports: sources(t, admin, exports)}
	c, rights := reader(t, s, "part", `key_prefix "resource/" { policy = "list" } key "resource/demo.v2.Artist/korn" { policy = "deny" } service "web" { policy = "read" }`)
	for spec, before := range known {
		if err := confirm(t, c, spec, before); !IsForbidden(err) || !strings.Contains(err.Error(), "which was applied") {
			t.Errorf("%s: a resource that may not be read: %v", spec, err)
		}
	}
	grant(t, s, rights, `key_prefix "resource/" { policy = "list" } service_prefix "" { policy = "read" }`)
	send(t, s, http.MethodDelete, "/api/demo/v2/artist/korn", "")
	send(t, s, http.MethodDelete, "/api/multicluster/v2/exportedservices/more", "")
	for spec, before := range known {
		if err := confirm(t, c, spec, before); err != nil {
			t.Errorf("%s: a resource that may be read is gone: %v", spec, err)
		}
	}
}

func TestResources_OneRequestForEachKindAndInterval(t *testing.T) {
	s := consultest.Start(t)
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	var queries []Query
	for _, prefix := range []string{"", "a", "b", "c"} { // tasks
		for _, spec := range []condition.Resources{artists, exports} {
			spec.NamePrefix = prefix
			queries = append(queries, query(t, spec))
		}
	}
	queries = append(queries, query(t, services("web", "api")))
	gates := PollGates(queries)
	poll := func() Marks {
		t.Helper()
		marks, err := c.Poll(t.Context(), gates)
		if err != nil || len(marks) != gates.Len() {
			t.Fatalf("%d of %d gates: %v", len(marks), gates.Len(), err)
		}
		return marks
	}
	want := map[string]int{"/api/demo/v2/artist": 1, "/api/multicluster/v2/exportedservices": 1, "/v1/catalog/nodes": 1, "/v1/health/state/critical": 1}
	before := poll()
	if diff := cmp.Diff(want, proxy.Requests()); diff != "" {
		t.Errorf("the requests of a poll: %s", diff)
	}
	// Within the interval, polls only read the other gates.
	putResource(t, s, "demo/v2/artist/kiss", `{"name": "Kiss"}`)
	for range 3 {
		if moved := gates.Moved(before, poll()); slices.ContainsFunc(queries, moved) {
			t.Error("a gate has moved")
		}
	}
	if diff := cmp.Diff(map[string]int{"/api/demo/v2/artist": 1, "/api/multicluster/v2/exportedservices": 1, "/v1/catalog/nodes": 4, "/v1/health/state/critical": 4}, proxy.Requests()); diff != "" {
		t.Errorf("the requests of four polls within the interval: %s", diff)
	}
	age(c)
	moved := gates.Moved(before, poll())
	if !moved(queries[0]) || moved(queries[1]) {
		t.Error("after the interval, the gate of the artists alone moves")
	}
	proxy.Reset()
	c.Observe(t.Context(), queries[:8])
	if got := proxy.Total(); got != 2 {
		t.Errorf("all tasks read with %d requests: %v", got, proxy.Requests())
	}
}

// age lets half a minute pass for what the client has polled.
func age(c *Client) {
	for v, m := range c.paced.marks {
		m.at = m.at.Add(-30 * time.Second)
		c.paced.marks[v] = m
	}
}

func TestResources_ChangeIsSeenAlthoughItWasRevertedAfterARead(t *testing.T) {
	s := consultest.Start(t)
	putResource(t, s, "demo/v2/artist/korn", `{"name": "before"}`)
	c := client(t, s.Addr())
	q := query(t, artists)
	gates := PollGates([]Query{q})
	poll := func() Marks {
		t.Helper()
		marks, err := c.Poll(t.Context(), gates)
		if err != nil {
			t.Fatal(err)
		}
		return marks
	}
	recorded := poll()
	putResource(t, s, "demo/v2/artist/korn", `{"name": "after"}`)
	read := observe(t, c, q).Digest // after a run of the task, such as one that a person requested
	if now := poll(); gates.Moved(recorded, now)(q) {
		recorded = now
	}
	putResource(t, s, "demo/v2/artist/korn", `{"name": "before"}`)
	age(c)
	if observe(t, c, q).Digest == read {
		t.Fatal("nothing was taken back")
	}
	age(c)
	if !gates.Moved(recorded, poll())(q) {
		t.Error("the change that was taken back is missed")
	}
}

func TestWatch_PollsResourcesByTheirInterval(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	fast, slow := artists, exports
	fast.Interval = 20 * time.Millisecond
	gates := BlockGates([]Query{query(t, fast), query(t, slow)})
	w := c.watch(t.Context(), gates, nil, pace{wait: time.Second, poll: time.Millisecond, spacing: time.Millisecond, minBackoff: time.Millisecond, maxBackoff: time.Millisecond})
	eventually(t, "both gates show something", func() bool {
		marks, _ := w.Marks()
		return len(marks) == 2 && marks[gates.Keys()[0]] != "" && marks[gates.Keys()[1]] != ""
	})
	before, _ := w.Marks()
	eventually(t, "the fast one is polled again", func() bool { return proxy.Requests()["/api/demo/v2/artist"] >= 3 })
	if marks, _ := w.Marks(); !cmp.Equal(before, marks) {
		t.Errorf("nothing changed: %v and %v", before, marks)
	}
	putResource(t, s, "demo/v2/artist/korn", `{"name": "Korn"}`)
	eventually(t, "the change is seen", func() bool { marks, _ := w.Marks(); return !cmp.Equal(before, marks) })
	if got := proxy.Requests()["/api/multicluster/v2/exportedservices"]; got != 1 {
		t.Errorf("the slow one is polled %d times", got)
	}
}

func TestResources_AgentShowsWhatItsServersHave(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	fill(t, s)
	agent := consultest.StartAgent(t, s, consultest.WithACLs())
	admin := clientOf(t, config.Consul{Address: agent.Addr(), Token: consultest.ManagementToken})
	token, rights := reader(t, s, "token", everything)
	token = clientOf(t, config.Consul{Address: agent.Addr(), Token: token.resolved.Token})
	for name, spec := range readings {
		before := sources(t, admin, spec)
		grant(t, s, rights, everything)
		eventually(t, name+" with every right", func() bool { return confirm(t, token, spec, before) == nil })
		grant(t, s, rights, "")
		eventually(t, name+" without rights", func() bool { return IsForbidden(confirm(t, token, spec, before)) })
		if err := confirm(t, token, spec, nil); !IsForbidden(err) {
			t.Errorf("%s: nothing is known, and nothing may be read: %v", name, err)
		}
	}
}
