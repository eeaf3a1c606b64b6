package main

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

const warnsOfOpenAPI = "anyone who can reach the HTTP API can read it, and only this machine can change something"

func TestStart_APIWithTokens(t *testing.T) {
	const act, read = "the-token-that-may-act", "the-token-that-may-read"
	t.Setenv("X_TOKEN", act)
	s := newSite(t)
	s.write("read-token", read+"\n")
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false")), "-config-file", s.write("api.hcl", `
api {
  bind_address    = "127.0.0.1"
  hosts           = ["sync.example.com"]
  token           = "{{ env \"X_TOKEN\" }}"
  read_token_file = "read-token"
}
`))
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	for host, want := range map[string]int{"sync.example.com": http.StatusOK, "attacker.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/v1/tasks", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+read)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("at %s: %s", host, resp.Status)
		}
	}
	for _, test := range []struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		{nil, nil, exitError, "-token or TERRAPULSE_TOKEN"},
		{nil, []string{"-token", "wrong"}, exitError, "not valid"},
		{nil, []string{"-token", act}, exitOK, "complete"},
		{nil, []string{"-token-file", s.write("act-token", act+"\n")}, exitOK, "complete"},
		{map[string]string{"TERRAPULSE_TOKEN": act}, nil, exitOK, "complete"},
		{map[string]string{"TERRAPULSE_TOKEN": act}, []string{"-token", read}, exitError, "use the one of api.token"},
		{map[string]string{"TERRAPULSE_TOKEN_FILE": s.path("act-token")}, nil, exitOK, "complete"},
		{nil, []string{"-token", act, "-token-file", "x"}, exitError, "use one of them"},
	} {
		for k, v := range test.env {
			t.Setenv(k, v)
		}
		r := s.bare("task", append([]string{"disable", "-http-addr", address, "lb"}, test.args...)...)
		wantCode(t, r, test.code)
		wantText(t, unwrapped(r.stdout+r.stderr), test.want)
		for k := range test.env {
			t.Setenv(k, "")
		}
	}
	help := s.bare("task", "disable", "-help")
	for _, out := range []string{p.stderr.String(), help.stdout} {
		if strings.Contains(out, act) || strings.Contains(out, read) {
			t.Errorf("a token is printed:\n%s", out)
		}
	}
	if strings.Contains(p.stderr.String(), warnsOfOpenAPI) {
		t.Error("it warns although a token is needed")
	}
}

func TestValidate_RefusesATokenThatStartRefuses(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	file := s.write("api.hcl", `api { token = "abc" }`)
	for _, args := range [][]string{{"validate"}, {"start"}} {
		r := s.run(append(args, "-config-file", file)...)
		wantCode(t, r, exitConfig)
		wantText(t, r.stderr, "api.hcl:1: api.token: the token has 3 characters, but needs at least 16")
	}
	r := s.run("start", "-config-file", s.write("api.hcl", `api { token = "{{ env \"X_NOT_SET\" }}" }`))
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "use api.token: the token has 0 characters")
}

func TestStart_ServesMetricsAndItsVersion(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 80, "passing")
	p := s.start("-allow-origin", "https://ops.example.com", "-config-file", s.config(s.task("lb", onWeb)))
	address := p.served()
	scrape := func() string {
		t.Helper()
		resp, err := http.Get(address + "/v1/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if origin := resp.Header.Get("Access-Control-Allow-Origin"); err != nil || origin != "https://ops.example.com" {
			t.Fatalf("%v, allowed origin %q", err, origin)
		}
		return string(body)
	}
	eventually(t, "the run and the tick are counted", func() bool {
		text := scrape()
		return strings.Contains(text, `terrapulse_runs_total{outcome="succeeded",task="lb"} 1`) && strings.Contains(text, `terrapulse_last_good_tick_age_seconds`)
	})
	wantText(t, scrape(), "terrapulse_leader 1", `version="dev"`, "terrapulse_store_up 1", "terrapulse_tasks_failing 0", `terrapulse_ticks_total{result="done"}`)
	if got := ask(t, "GET", address+"/v1/version", "", 200); got["version"] != "dev" || got["api_version"] != "v1" || got["go_version"] != runtime.Version() {
		t.Errorf("version: %v", got)
	}
}
