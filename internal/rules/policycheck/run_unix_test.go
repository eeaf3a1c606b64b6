//go:build !windows

package policycheck

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/program"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// shell is a check that runs a script.
func shell(name, script string) Spec {
	return Spec{Name: name, Enabled: true, Command: []string{"sh", "-c", script}, OnFail: Hold, Timeout: time.Minute}
}

func hide(text string) string { return strings.ReplaceAll(text, "known-secret", "(redacted)") }

// judge runs checks in a folder.
func judge(t *testing.T, dir string, checks ...Spec) []Result {
	t.Helper()
	results, err := Judge(t.Context(), checks, dir, os.Environ(), Input{Plan: json.RawMessage("{}")}, hide)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestJudge_ExitCodeIsTheVerdict(t *testing.T) {
	gone := shell("gone", "")
	gone.Command = []string{"no-such-program"}
	path := shell("path", "")
	path.Command = []string{"./no-such-script"}
	late := shell("late", "sleep 600")
	late.Timeout = 200 * time.Millisecond
	got := judge(t, "",
		shell("good", "echo fine"),
		shell("bad", "echo 'FAIL - web is public.'; echo; echo '  2 tests,  1 failure' >&2; exit 3"),
		shell("silent", "exit 1"),
		shell("killed", "kill -9 $$"),
		gone, path, late,
		shell("leaky", "printf '\\033[31mtoken known-secret\\033[0m\\r\\n\\001'; exit 1"),
		shell("reads nothing", "exec <&-"),
	)
	want := []string{
		"",
		"check bad refused the plan: FAIL - web is public.; 2 tests, 1 failure",
		"check silent refused the plan with exit code 1",
		"check killed did not end by itself: signal: killed",
		"check gone cannot be run: there is no program no-such-program on PATH; install it where runs are carried out",
		"check path cannot be run: fork/exec ./no-such-script: no such file or directory",
		"check late did not end within 200ms",
		"check leaky refused the plan: token (redacted); \ufffd",
		"",
	}
	for i, r := range got {
		if r.Refused != want[i] {
			t.Errorf("%s: %q, want %q", r.Name, r.Refused, want[i])
		}
	}
	if got[0].Output != "fine" || got[1].Output != "FAIL - web is public.\n\n  2 tests,  1 failure" {
		t.Errorf("the outputs are %q and %q", got[0].Output, got[1].Output)
	}
}

func TestJudge_LongOutputIsCut(t *testing.T) {
	r := judge(t, "", shell("long", "yes 'a long line' | head -c 1000000; exit 1"))[0]
	if len(r.Output) > program.MaxOutput || len(r.Refused) > program.MaxLine+100 || !strings.HasSuffix(r.Refused, "…") {
		t.Errorf("%d bytes of output, and the reason has %d: %.100s", len(r.Output), len(r.Refused), r.Refused)
	}
}

func TestJudge_InputFolderAndEnvironmentAreThoseOfTheRun(t *testing.T) {
	dir := t.TempDir()
	in := Input{
		Task: "firewall", Run: Run{ID: "r1", Kind: state.KindApply}, Reason: state.Reason{Code: state.ReasonChanged, Text: "service web changed"},
		Entries: Entries{Added: []string{"web-4"}, Removed: []string{"web-3"}, Changed: []string{}},
		Plan:    json.RawMessage(`{"format_version":"1.2"}`),
	}
	if _, err := Judge(t.Context(), []Spec{shell("copy", "cat >input; env >environment")}, dir, []string{"PATH=" + os.Getenv("PATH"), "ONLY=this"}, in, hide); err != nil {
		t.Fatal(err)
	}
	const want = `{"task":"firewall","run":{"id":"r1","kind":"apply"},"reason":{"code":"condition_changed","text":"service web changed"},` +
		`"entries":{"added":["web-4"],"removed":["web-3"],"changed":[]},"plan":{"format_version":"1.2"}}` + "\n"
	got, err := os.ReadFile(filepath.Join(dir, "input"))
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("the input is wrong (%v):\n%s", err, diff)
	}
	env, err := os.ReadFile(filepath.Join(dir, "environment"))
	if err != nil || !strings.Contains(string(env), "ONLY=this") || strings.Contains(string(env), "HOME=") {
		t.Errorf("the environment is %s, %v", env, err)
	}
}

// Two checks that wait for each other end only if they run at the same time.
func TestJudge_ChecksRunAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range judge(t, dir, shell("reads", "read line <pipe"), shell("writes", "echo x >pipe")) {
		if r.Refused != "" {
			t.Error(r.Refused)
		}
	}
}

func TestJudge_ProgramThatLeavesAProcessBehindHasItsVerdict(t *testing.T) {
	dir := t.TempDir()
	if r := judge(t, dir, shell("leaves", "sleep 600 & echo $! >child; echo fine"))[0]; r.Refused != "" || r.Output != "fine" {
		t.Errorf("%+v", r)
	}
	gone(t, filepath.Join(dir, "child"))
}

// gone waits until the process with the id in a file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		// A process that has ended stays as a zombie where nobody waits for it.
		state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		if s := strings.TrimSpace(string(state)); s == "" || strings.HasPrefix(s, "Z") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Error("a process of the check still runs")
}

func TestJudge_EndOfTheRunKillsEveryProcess(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("cancelled by ann")
	go func() {
		_, _ = os.ReadFile(began)
		stop(ended)
	}()
	if _, err := Judge(ctx, []Spec{shell("long", "sleep 600 & echo $! >child; echo x >began; sleep 600")}, dir, os.Environ(), Input{}, hide); !errors.Is(err, ended) {
		t.Errorf("%v", err)
	}
	gone(t, filepath.Join(dir, "child"))
}

func TestSpec_MissingProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "check.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, missing := range map[string]bool{"sh": false, "no-such-program": true, "./check.sh": false, "./none.sh": true, "/bin/sh": false, "/none": true} {
		if why := (Spec{Name: "a", Command: []string{program}}).Missing(dir); (why != "") != missing {
			t.Errorf("%s: %q", program, why)
		}
	}
}
