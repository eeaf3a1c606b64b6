package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Somebody moves a firewall to another site in its task file, while its plan waits for an approval.
func TestStart_ChangedLabelRunsNothingAndDecidesWhoMayApprove(t *testing.T) {
	s := newParallelSite(t)
	const key = "the-token-of-the-configuration"
	access := s.write("access.hcl", `
api {
  bind_address = "127.0.0.1"
  token        = "`+key+`"
  access {
    grant {
      roles  = ["approve"]
      to     = ["token:muc"]
      labels = { site = "muc" }
    }
    grant {
      roles  = ["approve"]
      to     = ["token:ber"]
      labels = { site = "ber" }
    }
  }
}
`)
	s.register("web", "web-1", 8080, "passing")
	s.register("db", "db-1", 5432, "passing")
	at := func(site string) string {
		label := "\n  labels = { site = \"" + site + "\" }"
		return s.config(s.task("lb", onWeb+"\n  approval = \"always\""+label) + s.task("kept", onWeb+"\n  approval = \"always\""+label) + s.task("quiet", onWeb+label) + s.task("other", strings.Replace(onWeb, "web", "db", 1)))
	}
	p := s.start("-config-file", at("muc"), "-config-file", access)
	address := strings.Replace(p.served(), "localhost", "127.0.0.1", 1)
	eventually(t, "the others are applied, and a plan waits", func() bool {
		return s.read("quiet.txt") != "" && s.read("other.txt") != "" && s.named("lb").Phase == apispec.PhaseWaiting && s.named("kept").Phase == apispec.PhaseWaiting && s.named("quiet").Phase == apispec.PhaseApplied
	})
	tokens := map[string]string{}
	for _, name := range []string{"muc", "ber"} {
		made := s.bare("token", "create", "-store", "sqlite:"+s.path("state.db"), name)
		wantCode(t, made, exitOK)
		tokens[name] = strings.TrimSpace(made.stdout)
	}
	get := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	plan := func() (plan apispec.WaitingPlan) {
		t.Helper()
		shown := s.bare("plan", "show", "-json", "-http-addr", address, "-token", key, "lb")
		if err := json.Unmarshal([]byte(shown.stdout), &plan); err != nil {
			t.Fatalf("%v: %s%s", err, shown.stdout, shown.stderr)
		}
		return plan
	}
	as := func(token string, code int, says string, command ...string) {
		t.Helper()
		r := s.bare(command[0], append([]string{"-http-addr", address, "-token", token}, command[1:]...)...)
		wantCode(t, r, code)
		wantText(t, strings.Join(strings.Fields(r.stdout+r.stderr), " "), says)
	}
	as(key, exitOK, "on hold", "hold", "kept")
	as(tokens["muc"], exitOK, "Approved", "approve", "kept")
	waits, ran, applied := plan(), [][]apispec.Run{s.shown("lb"), s.shown("quiet")}, s.read("quiet.txt")

	at("ber")
	eventually(t, "the API and the page show the new label", func() bool {
		return strings.Contains(get("/v1/tasks/lb/overview"), `"labels":{"site":"ber"}`) && strings.Contains(get("/ui/tasks/lb"), "site=ber") &&
			strings.Contains(get("/v1/overview?label=site%3Dber"), `"name":"quiet"`)
	})
	s.register("db", "db-2", 5433, "passing")
	eventually(t, "ticks with the new files find a change of another task", func() bool { return strings.Contains(s.read("other.txt"), "5433") })
	if diff := cmp.Diff(ran, [][]apispec.Run{s.shown("lb"), s.shown("quiet")}); diff != "" {
		t.Errorf("a changed label has run or planned something:\n%s", diff)
	}
	if now := plan(); now.ID != waits.ID || s.read("quiet.txt") != applied || s.read("lb.txt") != "" {
		t.Errorf("another plan waits: %s, not %s", now.ID, waits.ID)
	}

	as(key, exitOK, "", "release", "kept")
	eventually(t, "the plan that was approved before is applied", func() bool { return s.read("kept.txt") != "" && s.named("kept").Phase == apispec.PhaseApplied })
	if runs := s.shown("kept"); len(runs) != 1 {
		t.Errorf("the approved task ran again: %+v", runs)
	}
	as(tokens["muc"], exitError, "token:muc needs the role view for task lb, and has it only for site=muc", "approve", "-plan", waits.ID, "lb")
	as(tokens["ber"], exitOK, "Approved", "approve", "-plan", waits.ID, "lb")
	eventually(t, "the approved plan is applied", func() bool { return s.read("lb.txt") != "" })
	at("muc")
	eventually(t, "the files are read again", func() bool { return strings.Contains(get("/v1/tasks/lb/overview"), `"labels":{"site":"muc"}`) })
	listed := s.bare("whoami", "-http-addr", address, "-token", tokens["ber"])
	wantText(t, listed.stdout, "Roles: view (site=ber), approve (site=ber)")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
