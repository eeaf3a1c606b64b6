package main

import (
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
  }
}
`)
	p := s.start("-config-file", files, "-config-file", access)
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	made := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), "-expires=90d", "alice")
	wantCode(t, made, exitOK)
	wantText(t, made.stderr, "shown once", "token:alice")
	token := strings.TrimSpace(made.stdout)
	as := func(token string, want int, says string, command ...string) {
		t.Helper()
		words := strings.Fields(command[0])
		args := append(words[1:], "-http-addr", address, "-token", token)
		r := s.bare(words[0], append(args, command[1:]...)...)
		wantCode(t, r, want)
		wantText(t, strings.Join(strings.Fields(r.stdout+r.stderr), " "), says)
	}
	const fix = ": an administrator can give it with a grant in api.access of the configuration"
	as(token, exitOK, "Task lb is on hold", "hold", "lb")
	as(token, exitError, "token:alice may view and operate, but needs the role administer for task lb"+fix, "task disable", "lb")
	as(token, exitError, "token:alice needs the role view for task other, and has none"+fix, "runs", "other")
	as(token, exitError, "needs the role administer for all tasks"+fix, "token list")
	as("the-token-of-the-configuration", exitOK, "alice "+token[len(token)-4:], "token list")
	status := s.bare("status", "-json", "-http-addr", address, "-token", token)
	wantCode(t, status, exitOK)
	wantText(t, status.stdout, `"by": "token:alice"`)
	as("the-token-of-the-configuration", exitOK, "Token alice is revoked", "token revoke", "alice")
	as(token, exitError, "the token in the header Authorization is not valid here", "release", "lb")
	if strings.Contains(p.stderr.String(), token) {
		t.Error("the token is in the log")
	}
}
