package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// refusing is a backend of Terraform that takes no state of some tasks.
type refusing struct {
	mu      sync.Mutex
	states  map[string]string // by task
	refuses string            // this task
	refused int
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := strings.TrimPrefix(req.URL.Path, "/")
	switch body, _ := io.ReadAll(req.Body); {
	case req.Method == http.MethodPost && task == r.refuses:
		r.refused++
		w.WriteHeader(http.StatusInsufficientStorage)
	case req.Method == http.MethodPost:
		r.states[task] = string(body)
	case r.states[task] == "":
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = io.WriteString(w, r.states[task])
	}
}

// refuse has the backend take no state of a task; "" for none. It returns how many states it has refused.
func (r *refusing) refuse(task string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = task
	return r.refused
}

func (r *refusing) state(task string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[task]
}

// An instance is stopped while the backend does not take the state of its run. It takes 70 seconds until
// the instance gives up.
func TestWhatARunMadeIsNotMadeAgainElsewhereIfItsStateCouldNotBeSaved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	t.Parallel()
	backend := &refusing{states: map[string]string{}}
	server := httptest.NewServer(backend)
	t.Cleanup(server.Close)
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	e.backend = fmt.Sprintf("backend \"http\" {\n    address = %q\n    retry_max = 0\n  }", server.URL+"/{task}")
	c := e.twoWithARunEach()
	tasks, one, two, task, near := c.tasks, c.one, c.two, c.ofTwo, c.ofOne
	backend.refuse(task)
	before := backend.state(task)
	e.write("free."+near, "")
	e.write("free."+task, "")
	eventually(t, "the backend refuses the state", func() bool { return backend.refuse(task) > 1 })
	if err := os.Remove(e.path("hold")); err != nil {
		t.Fatal(err)
	}
	two.Process.Signal(syscall.SIGTERM)
	<-two.ended
	backend.refuse("")
	only := func(where string, began map[string]int) {
		t.Helper()
		if got := e.began(task); fmt.Sprint(got) != fmt.Sprint(began) || backend.state(task) != before {
			t.Fatalf("%s: applies of %s began on %v, and the backend's state is\n%s", where, task, got, backend.state(task))
		}
	}
	shows := func(m *member, wants ...string) func() bool {
		return func() bool {
			_, text := m.call("GET", "/v1/overview", "")
			for _, want := range wants {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "the status says where the state is",
		shows(one, "state_not_saved", "instance cts-02 keeps it in "+e.path("cts-02"), "errored.tfstate", "Start cts-02"))
	only("while the instance is stopped", map[string]int{"cts-02": 1})

	// Another instance leads, and a person requests a run without the state.
	three := e.instance(3, tasks)
	eventually(t, "the third instance is there", func() bool { return one.sees(2, "cts-01") })
	if code := one.stop(); code != exitOK {
		t.Errorf("cts-01: exit code %d", code)
	}
	eventually(t, "the third instance leads", three.leads)
	eventually(t, "the status says it still", shows(three, "state_not_saved"))
	if code, text := three.call("POST", "/v1/tasks/"+task+"/run", ""); code >= 300 {
		t.Errorf("the request for a run answers %d %s", code, text)
	}
	eventually(t, "its plan waits for an approval", shows(three, "waits for approval", "may make again what that run made", "instance cts-02 keeps it"))
	if code, text := three.call("POST", "/v1/tasks/"+task+"/cancel", ""); code >= 300 {
		t.Errorf("the cancellation answers %d %s", code, text)
	}
	eventually(t, "the run is cancelled", shows(three, `"cancelled"`))
	only("after the run was cancelled", map[string]int{"cts-02": 1})

	// The instance is there again, with its folders: it saves the state, and there is nothing to make.
	two = e.instance(2, tasks)
	eventually(t, "the second instance is there", func() bool { return three.sees(2, "cts-03") })
	if code, text := three.call("POST", "/v1/tasks/"+task+"/run", ""); code >= 300 {
		t.Errorf("the request for a run answers %d %s", code, text)
	}
	eventually(t, "the state is saved", func() bool { return strings.Contains(backend.state(task), "8080") })
	eventually(t, "both tasks are applied", func() bool {
		_, text := three.call("GET", "/v1/overview", "")
		return strings.Count(text, `"phase":"applied"`)+strings.Count(text, `"phase": "applied"`) == 2
	})
	if got := e.began(task); len(got) != 1 || got["cts-02"] != 1 {
		t.Errorf("what was made is made again: %v\n%s", got, e.read("log"))
	}
	if text := two.stderr.String(); !strings.Contains(text, "launch taken") {
		t.Errorf("the instance with the state did not take the run:\n%s", text)
	}
	for _, m := range []*member{two, three} {
		if code := m.stop(); code != exitOK {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}
