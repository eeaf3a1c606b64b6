package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
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
