package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// lists are the lists of tasks, each with a function that returns the names in an answer
// and the cursor of the next part.
var lists = map[string]func(*testing.T, answer) (names []string, next string){
	"/v1/tasks": func(t *testing.T, a answer) (names []string, next string) {
		var got apispec.TasksResponse
		decode(t, a, &got)
		for _, task := range got.Tasks {
			names = append(names, task.Name)
		}
		return names, apispec.Deref(got.Next)
	},
	"/v1/status/tasks": func(t *testing.T, a answer) (names []string, next string) {
		tokens := json.NewDecoder(strings.NewReader(a.body)) // in the order of the answer
		if _, err := tokens.Token(); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		for tokens.More() {
			name, err := tokens.Token()
			if err == nil {
				err = tokens.Decode(new(apispec.TaskStatus))
			}
			if err != nil {
				t.Fatalf("%v: %s", err, a.body)
			}
			names = append(names, name.(string))
		}
		return names, a.header.Get("Terrapulse-Next")
	},
	"/v1/overview": func(t *testing.T, a answer) (names []string, next string) {
		var got apispec.Overview
		decode(t, a, &got)
		for _, task := range got.Tasks {
			names = append(names, task.Name)
		}
		return names, apispec.Deref(got.Next)
	},
}

func decode(t testing.TB, a answer, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d, %v: %s", a.status, err, a.body)
	}
}

// listed is an engine with tasks that were applied, but for one that fails and one that is
// off, in an order that is not that of their names.
func listed(t *testing.T) *engine {
	t.Helper()
	var hcl strings.Builder
	for _, name := range []string{"web-b", "dns", "web-a", "vpn"} {
		fmt.Fprintf(&hcl, "task {\n name = %q\n module = \"./m\"\n enabled = %t\n condition \"services\" { names = [\"web\"] }\n}\n", name, name != "vpn")
	}
	e := newEngine(t, hcl.String()).serve()
	for name, how := range map[string]state.RunState{"web-b": state.RunSucceeded, "web-a": state.RunSucceeded, "dns": state.RunFailed} {
		var changes []state.Change
		known := e.conclude(name, state.Task{}, how, &changes)
		if known.Reason = (state.Reason{Code: state.ReasonUnchanged}); how == state.RunFailed {
			known.Reason = state.Reason{Code: state.ReasonBackoff}
		}
		if _, err := e.store.Apply(t.Context(), append(changes, state.Create(state.TaskKey(name), state.Encode(known)))...); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestLists_ParameterMeansTheSameInEachList(t *testing.T) {
	e := listed(t)
	for query, want := range map[string][]string{
		"enabled=false":           {"vpn"},
		"phase=failing":           {"dns"},
		"phase=attention":         {"dns"},
		"name=web":                {"web-a", "web-b"},
		"name=web-?":              {"web-a", "web-b"},
		"task=vpn&task=dns":       {"dns", "vpn"},
		"sort=-name&limit=2":      {"web-b", "web-a"},
		"name=web&enabled=false":  nil,
		"after=vpn":               {"web-a", "web-b"},
		"before=vpn&limit=1":      {"dns"},
		"search=web-b":            {"web-b"},
		"limit=0":                 nil,
		"reason=backing_off":      {"dns"},
		"phase=applied&name=*-b*": {"web-b"},
	} {
		for path, read := range lists {
			if got, _ := read(t, e.get(path+"?"+query)); !slices.Equal(got, want) {
				t.Errorf("%s?%s has %q, want %q", path, query, got, want)
			}
		}
	}
}

func TestLists_PartsFollowEachOther(t *testing.T) {
	e := listed(t)
	for path, read := range lists {
		got, next := read(t, e.get(path+"?limit=3"))
		if !slices.Equal(got, []string{"dns", "vpn", "web-a"}) || next != "web-a" {
			t.Errorf("%s: the first part is %q, and behind %q follows the next", path, got, next)
		}
		status(t, e.ask("DELETE", "/v1/tasks/"+next, ""), http.StatusAccepted) // meanwhile
		if got, next = read(t, e.get(path+"?limit=3&after="+next)); !slices.Equal(got, []string{"web-b"}) || next != "" {
			t.Errorf("%s: the last part is %q, and behind %q follows another", path, got, next)
		}
		e = listed(t)
	}
}

func TestLists_WithoutParametersAreTheWholeOnes(t *testing.T) {
	e := listed(t)
	for path, want := range map[string][]string{"/v1/tasks": {"web-b", "dns", "web-a", "vpn"}, "/v1/overview": {"web-b", "dns", "web-a", "vpn"}, "/v1/status/tasks": {"dns", "vpn", "web-a", "web-b"}} {
		got := e.get(path)
		if names, next := lists[path](t, got); !slices.Equal(names, want) || next != "" {
			t.Errorf("%s has %q and %q, want %q", path, names, next, want)
		}
		if path != "/v1/overview" && (strings.Contains(got.body, `"next"`) || got.header.Get("Terrapulse-Next") != "") {
			t.Errorf("%s has more than in Consul-Terraform-Sync: %s", path, got.body)
		}
	}
	if one := e.get("/v1/status/tasks/dns?name=web&limit=0"); !strings.Contains(one.body, `"dns"`) {
		t.Errorf("the status of one task is no list: %s", one.body)
	}
}

func TestLists_StatusOfTasksCanBeLimitedFurther(t *testing.T) {
	e := listed(t)
	got, next := lists["/v1/status/tasks"](t, e.get("/v1/status/tasks?status=successful&limit=1&include=events"))
	if !slices.Equal(got, []string{"web-a"}) || next != "web-a" {
		t.Errorf("%q, %q", got, next)
	}
}

func TestLists_WrongParameterIsNamed(t *testing.T) {
	e := listed(t)
	for path := range lists {
		got := e.get(path + "?limit=few")
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, `parameter limit is \"few\": use a number from 0 to 1000`) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if legacy := !strings.Contains(got.body, "request_id"); legacy != (path == "/v1/status/tasks") {
			t.Errorf("%s: the error has another form: %s", path, got.body)
		}
	}
}

func TestOverview_CountsAllTasksListedOrNot(t *testing.T) {
	e := listed(t)
	for _, query := range []string{"", "?limit=1", "?name=web&attention=5", "?limit=0"} {
		var o apispec.Overview
		decode(t, e.get("/v1/overview"+query), &o)
		if o.Counts.All != 4 || o.Counts.Attention != 1 || o.Counts.Phases["failing"] != 1 || o.Counts.Phases["applied"] != 2 || o.Counts.Phases["stopped"] != 1 {
			t.Errorf("overview%s counts %+v", query, o.Counts)
		}
		if (o.Attention != nil) != strings.Contains(query, "attention") || o.Attention != nil && (*o.Attention)[0].Name != "dns" {
			t.Errorf("overview%s needs a person for %+v", query, o.Attention)
		}
	}
	tag := e.get("/v1/overview?limit=1").header.Get("ETag")
	if got := e.ask("GET", "/v1/overview?limit=1", "", "If-None-Match", tag); got.status != http.StatusNotModified {
		t.Errorf("the same part is sent again: %d", got.status)
	}
	status(t, e.ask("POST", "/v1/tasks/web-b/hold", "{}"), http.StatusOK) // which the part does not list
	if got := e.ask("GET", "/v1/overview?limit=1", "", "If-None-Match", tag); got.status != http.StatusOK {
		t.Errorf("another task has changed: %d", got.status)
	}
}

// watched is a store that counts how often the records of all tasks are read.
type watched struct {
	state.Store
	reads  atomic.Int64
	broken atomic.Bool
}

func (w *watched) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if w.broken.Load() {
		panic("a bug")
	}
	if prefix == state.TaskPrefix {
		w.reads.Add(1)
	}
	return w.Store.List(ctx, prefix)
}

func TestOverview_IsReadAgainUnlessTheClientAcceptsAnEarlierRead(t *testing.T) {
	e := newEngine(t, files)
	store := &watched{Store: e.store}
	e.Control.Store = store
	e.serve()
	for _, tt := range []struct {
		accepts string
		reads   int64
	}{{"", 1}, {"max-age=60", 1}, {"max-age=60", 1}, {"max-age=0", 2}, {"no-cache", 3}, {"", 4}, {"max-age=-5", 5}} {
		if got := e.ask("GET", "/v1/overview?limit=1", "", "Cache-Control", tt.accepts); got.status != http.StatusOK || store.reads.Load() != tt.reads {
			t.Errorf("Cache-Control %q: %d, %d reads, want %d", tt.accepts, got.status, store.reads.Load(), tt.reads)
		}
	}
	status(t, e.ask("POST", "/v1/tasks/web/hold", "{}"), http.StatusOK)
	if got := e.get("/v1/overview?task=web"); !strings.Contains(got.body, "on_hold") {
		t.Errorf("after a change: %s", got.body)
	}
	store.broken.Store(true)
	if got := e.get("/v1/overview"); got.status != http.StatusInternalServerError || !strings.Contains(got.body, "internal error, see the log") {
		t.Errorf("after a panic: %d %s", got.status, got.body)
	}
	store.broken.Store(false)
	status(t, e.get("/v1/overview"), http.StatusOK)
}
