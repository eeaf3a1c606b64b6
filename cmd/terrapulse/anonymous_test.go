package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestStart_WithoutATokenOtherMachinesReadAndChangeNothing(t *testing.T) {
	s := newParallelSite(t)
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false")))
	here := p.served()
	eventually(t, "a warning is logged", func() bool { return strings.Contains(p.stderr.String(), warnsOfOpenAPI) })
	there := strings.Replace(here, "localhost", testtools.LANAddress(t), 1)
	for _, c := range []struct {
		method, path, body string
		here, there        int
	}{
		{"GET", "/v1/status", "", 200, 200},
		{"GET", "/ui/tasks/lb", "", 200, 200},
		{"PATCH", "/v1/tasks/lb?run=inspect", `{"enabled": true}`, 200, 403},
		{"POST", "/v1/tasks/lb/destroy", `{}`, 202, 403},
		{"POST", "/v1/tasks", `{}`, 400, 403},
		{"POST", "/ui/tasks/lb/hold", "", 200, 403},
	} {
		for address, want := range map[string]int{here: c.here, there: c.there} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, address+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s %s%s: %s, want %d\n%s", c.method, address, c.path, resp.Status, want, body)
			}
			if want == 403 && !(strings.Contains(string(body), "api.token") && strings.Contains(string(body), "tls.verify_incoming")) {
				t.Errorf("%s %s: the answer names no key: %s", c.method, c.path, body)
			}
		}
	}
	r := s.bare("task", "disable", "-http-addr", there, "lb")
	wantCode(t, r, exitError)
	wantText(t, unwrapped(r.stdout+r.stderr), "set api.token or tls.verify_incoming")
}

func TestMigrateCheck_SaysWhoMayChangeSomethingThroughTheAPI(t *testing.T) {
	const says = "set api.token (they send it as a bearer token) or tls.verify_incoming"
	s := newSite(t)
	file := s.config(s.task("lb", "enabled = false"))
	wantText(t, unwrapped(s.migrate(file).stdout), says)
	for _, closed := range []string{`api { token = "the-token-that-may-act" }`, `api { bind_address = "127.0.0.1" }`} {
		r := s.migrate(file, "-config-file", s.write("api.hcl", closed))
		if strings.Contains(unwrapped(r.stdout), says) {
			t.Errorf("with %s: %s", closed, r.stdout)
		}
	}
}
