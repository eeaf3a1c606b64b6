package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestLogs_FollowPrintsOutputUntilTheRunHasEnded(t *testing.T) {
	s := newSite(t)
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
	wantText(t, r.stdout, "running ", "why: requested by start")
	over := s.run("status", address)
	wantCode(t, over, exitOK)
	wantText(t, over.stdout, "running ", "why: requested by start", "Leader: ")

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
