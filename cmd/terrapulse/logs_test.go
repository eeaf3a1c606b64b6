package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestLogs_FollowPrintsOutputUntilTheRunHasEnded(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.slowTask("slow")))
	address := "-http-addr=" + p.served()
	type following struct {
		stdout, stderr testtools.Output
		code           chan int
	}
	var follow []*following
	for _, flags := range [][]string{{"-store", "sqlite:" + s.path("state.db")}, {address}} {
		f := &following{code: make(chan int, 1)}
		follow = append(follow, f)
		eventually(t, "the run has begun", func() bool { return strings.Contains(s.run("status").stdout, "running") })
		go func() {
			f.code <- run(t.Context(), append(append([]string{"logs", "-follow"}, flags...), "slow"), &f.stdout, &f.stderr)
		}()
	}
	for _, f := range follow {
		eventually(t, "the output is printed while the run goes on", func() bool { return strings.Contains(f.stdout.String(), "terraform_data.slow: Creating...") })
		if text := f.stdout.String(); strings.Contains(text, "Apply complete") {
			t.Fatalf("the run has ended:\n%s", text)
		}
	}
	r := s.run("status")
	wantText(t, r.stdout, "running ", "why: the task has never been applied")
	over := s.run("status", address)
	wantCode(t, over, exitOK)
	wantText(t, over.stdout, "running ", "why: the task has never been applied", "Leader: ")

	s.write("go", "")
	for _, f := range follow {
		if code := <-f.code; code != exitOK {
			t.Errorf("exit code %d: %s", code, f.stderr.String())
		}
		wantText(t, f.stdout.String(), "Apply complete!")
		wantText(t, f.stderr.String(), "of task slow: succeeded")
		if n := strings.Count(f.stdout.String(), "terraform_data.slow: Creating..."); n != 1 {
			t.Errorf("a line is printed %d times:\n%s", n, f.stdout.String())
		}
	}

	// The instance tells the same as its store.
	for _, args := range [][]string{{"runs", "-json"}, {"runs"}, {"logs"}} {
		direct, over := s.run(append(args, "slow")...), s.run(append(args, address, "slow")...)
		wantCode(t, over, exitOK)
		if direct.stdout != over.stdout || direct.stdout == "" {
			t.Errorf("%v: the store says\n%s\nthe API\n%s", args, direct.stdout, over.stdout)
		}
	}
	id := strings.Fields(strings.Split(s.run("runs", address, "slow").stdout, "\n")[1])[0]
	wantText(t, s.run("logs", address, id).stdout, "Apply complete!")
	wantText(t, s.run("logs", address, "nothing").stderr, "there is no task and no run")
	wantText(t, s.run("runs", address, "nothing").stderr, "there is no task")
	r = s.run("status", address, "-config-file", "x.hcl")
	wantCode(t, r, exitFlags)
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestLogs_FollowsAStackThroughAnInterruptionUntilTheRunWaits(t *testing.T) {
	d := newFakeStack(t, nil)
	reads := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/v1/tasks/lb/runs":
			fmt.Fprint(w, `{"request_id":"1","runs":[{"id":"01a20044-4426","task":"lb","kind":"apply","state":"running","created":"2026-11-22T10:00:00Z","reason":{"code":"forced","text":""}}]}`)
		case !strings.HasSuffix(r.URL.Path, "/output"):
			http.NotFound(w, r)
		default:
			if reads++; reads == 2 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			part := map[string]string{"0": `"output":"plans\n","next_offset":6,"state":"running"`, "6": `"output":"to add: 1\n","next_offset":16,"state":"waiting"`, "16": `"output":"","next_offset":16,"state":"waiting"`}
			fmt.Fprintf(w, `{"request_id":"1","offset":0,"ended":false,%s}`, part[r.URL.Query().Get("offset")])
		}
	}))
	defer api.Close()
	d.api.Store(api.URL)
	code, out, errs := d.command("logs", "-stack=prod", "-follow", "lb")
	if code != exitOK || out != "plans\nto add: 1\n" {
		t.Errorf("%d: %q %s", code, out, errs)
	}
	wantText(t, errs, "Run 01a20044-4426 of task lb waits: `terrapulse plan show -stack=prod lb`")
}
