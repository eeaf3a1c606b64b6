package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestToken_LifetimeIsInDaysOrADuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90d": 90 * 24 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute, "x": -1, "0d": -1, "-1h": -1, "1.5d": -1, "d": -1} {
		if got, err := lifetime(text); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// postForm sends an empty form with a token.
func postForm(t *testing.T, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(said)
}

func TestToken_StoryOfAPerson(t *testing.T) {
	s := newSite(t)
	files := s.config(s.task("lb", "enabled = false"))
	access := s.write("api.hcl", `
api {
  bind_address = "127.0.0.1"
  token        = "the-token-of-the-configuration"
  access {
    group "network" {
      members = ["token:alice"]
    }
    grant {
      roles = ["operate"]
      to    = ["group:network"]
      tasks = ["lb*"]
    }
    grant {
      roles = ["view"]
      to    = ["token:dash"]
    }
  }
}
`)
	p := s.start("-config-file", files, "-config-file", access)
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	made := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), "-expires=90d", "alice")
	wantCode(t, made, exitOK)
	wantText(t, made.stderr, "shown once", "only what a grant in api.access permits token:alice: without such a grant, nothing")
	again := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), "alice")
	wantCode(t, again, exitError)
	wantText(t, again.stderr, "unable to create token 'alice'")
	token := strings.TrimSpace(made.stdout)
	as := func(token string, want int, says string, command ...string) {
		t.Helper()
		words := strings.Fields(command[0])
		args := append(words[1:], "-http-addr", address, "-token", token)
		r := s.bare(words[0], append(args, command[1:]...)...)
		wantCode(t, r, want)
		wantText(t, unwrapped(r.stdout+r.stderr), says)
	}
	const fix = ": an administrator can give it with a grant in api.access of the configuration"
	as(token, exitOK, "Task lb is on hold", "hold", "lb")
	as(token, exitError, "token:alice may view and operate, but needs the role administer for task lb"+fix, "task disable", "lb")
	as(token, exitError, "token:alice needs the role view for task other, and has none"+fix, "runs", "other")
	as(token, exitError, "needs the role administer for all tasks"+fix, "token list")
	viewer := strings.TrimSpace(s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), "dash").stdout)
	as(viewer, exitError, "token:dash may view, but needs the role operate for task lb"+fix, "hold", "lb")
	as(viewer, exitError, "token:dash may view, but needs the role administer for all tasks"+fix, "pause")
	if status, said := postForm(t, address+"/ui/tasks/lb/approve", viewer); status != http.StatusForbidden || !strings.Contains(said, "token:dash may view, but needs the role approve for task lb"+fix) {
		t.Errorf("a form of the pages: %d %s", status, said)
	}
	for _, want := range []string{"POST /v1/tasks/{name}/hold: token:dash may view, but needs the role operate for task lb", "POST /v1/pause: token:dash may view", "POST /v1/tasks/{name}/approval: token:dash may view"} {
		as("the-token-of-the-configuration", exitOK, want, "audit", "-action=refused")
	}
	as("the-token-of-the-configuration", exitOK, "alice …"+token[len(token)-4:], "token list")
	status := s.bare("status", "-json", "-http-addr", address, "-token", token)
	wantCode(t, status, exitOK)
	wantText(t, status.stdout, `"by": "token:alice"`)
	as("the-token-of-the-configuration", exitOK, "Token alice is revoked", "token revoke", "alice")
	as(token, exitError, "the token in the header Authorization is not valid here", "release", "lb")
	if strings.Contains(p.stderr.String(), token) {
		t.Error("the token is in the log")
	}
}
