package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// What names a place holds for every command that reads or decides: a flag beats the environment,
// where CTS_ADDRESS beats TERRAPULSE_STORE.
func TestCommands_UseThePlaceThatIsNamed(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		http.Error(w, `{"error":{"message":"from the API"}}`, http.StatusTeapot)
	}))
	defer api.Close()
	other := "http://127.0.0.1:1"
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	store, port := "sqlite:"+s.path("none.db"), api.URL[strings.LastIndex(api.URL, ":")+1:]
	commands := [][]string{{"status"}, {"status", "-health"}, {"events"}, {"audit"}, {"runs", "lb"}, {"logs", "lb"}, {"approve", "lb"}, {"reject", "-comment=no", "lb"}, {"plan", "show", "lb"}, {"hold", "lb"}, {"release", "lb"}, {"pause"}, {"resume"}}
	for _, tt := range []struct {
		name           string
		address, store string
		flags          []string
		api            bool
	}{
		{"CTS_ADDRESS", api.URL, "", nil, true},
		{"CTS_ADDRESS and TERRAPULSE_STORE", api.URL, store, nil, true},
		{"-http-addr", other, store, []string{"-http-addr=" + api.URL}, true},
		{"-port", other, store, []string{"-port=" + port}, true},
		{"-store", api.URL, "", []string{"-store=" + store}, false},
		{"TERRAPULSE_STORE", "", store, nil, false},
	} {
		t.Setenv("CTS_ADDRESS", tt.address)
		t.Setenv("TERRAPULSE_STORE", tt.store)
		for _, command := range commands {
			asked = nil
			words := 1
			if command[0] == "plan" {
				words = 2
			}
			r := s.bare(command[0], slices.Concat(command[1:words], tt.flags, command[words:])...)
			if got := len(asked) > 0; got != tt.api {
				t.Errorf("%s: %v requested %v: %s", tt.name, command, asked, r.stderr)
			}
		}
	}
	t.Setenv("CTS_ADDRESS", "")
	t.Setenv("TERRAPULSE_STORE", "")
	wantText(t, s.bare("plan", "show", "-http-addr="+api.URL, "lb").stderr, "unable to show the plan of 'lb'")
	wantText(t, s.bare("status").stderr, "no state yet", "-http-addr (or CTS_ADDRESS)")
}

// Task files do not say with which -store an instance was started. Commands find that store all the same.
func TestCommands_FindTheStoreOfAnInstanceByItsTaskFiles(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	instance := s.start("-config-file", file) // with -store=sqlite:state.db
	eventually(t, "the service is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
	r := s.bare("pause", "-config-file", file)
	wantCode(t, r, exitOK)
	if r.stderr != "" {
		t.Errorf("pause says %s", r.stderr)
	}
	eventually(t, "the instance is paused", func() bool { return strings.Contains(instance.stderr.String(), "event=paused") })
	wantCode(t, s.bare("resume", "-config-file", file), exitOK)
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "the change is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })
	if code := instance.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	// Nothing leads now.
	r = s.bare("hold", "-config-file", file, "lb")
	wantCode(t, r, exitOK)
	wantText(t, r.stderr, "No instance leads in the store "+s.path("state.db"), "another -store")

	// The next instance uses the store of the task files.
	where := func() string {
		var shown apispec.Overview
		if r := s.bare("status", "-json", "-config-file", file); json.Unmarshal([]byte(r.stdout), &shown) != nil || shown.Store == nil {
			t.Fatalf("status prints %s%s", r.stdout, r.stderr)
		}
		return shown.Store.Where
	}
	if got := where(); got != s.path("state.db") {
		t.Errorf("status reads %s", got)
	}
	wantCode(t, s.bare("start", "-once", "-config-file", file), exitOK)
	if got := where(); got == s.path("state.db") {
		t.Errorf("after a start without -store, status reads %s", got)
	}

	// A file that nobody can read is reported.
	if err := os.WriteFile(s.path("work/terrapulse.store"), []byte("elsewhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, s.bare("status", "-config-file", file).stderr, "terrapulse.store", "name the store with -store")
}
