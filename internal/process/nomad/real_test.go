package nomad_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/process/nomad"
	"github.com/terrapulse/terrapulse/internal/process/nomad/nomadtest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func launcher(t *testing.T, cfg config.Nomad) *nomad.Launcher {
	t.Helper()
	l, err := nomad.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// until waits for a status of the launch l1.
func until(t *testing.T, l *nomad.Launcher, what string, is func(reconcile.LaunchStatus) bool) reconcile.LaunchStatus {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := l.Status(t.Context(), []string{"l1"})
		if err == nil && is(got["l1"]) {
			return got["l1"]
		}
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s; status %+v, %v", what, got, err)
		}
	}
}

func stopped(s reconcile.LaunchStatus) bool { return s.Stopped != "" }

func TestRealNomad_DispatchesALaunchOnce(t *testing.T) {
	t.Parallel()
	a := nomadtest.Start(t)
	a.Run(nomadtest.RunnerJob("exit 3", nil, 32))
	l := launcher(t, config.Nomad{Address: a.Addr(), Job: "runner", Namespace: "default", Region: "global"})
	for range 2 {
		if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
			t.Fatal(err)
		}
	}
	got := until(t, l, "the runner has ended", stopped)
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil { // also after its end
		t.Fatal(err)
	}
	jobs := a.Dispatched("runner")
	if len(jobs) != 1 || got.Runner != jobs[0].ID || !strings.Contains(got.Stopped, "is failed: Exit Code: 3") {
		t.Errorf("jobs %+v, status %+v", jobs, got)
	}
}

func TestRealNomad_WithoutRoomALaunchIsBlocked(t *testing.T) {
	t.Parallel()
	a := nomadtest.Start(t)
	a.Run(nomadtest.RunnerJob("sleep 60", nil, 1000000))
	l := launcher(t, config.Nomad{Address: a.Addr(), Job: "runner"})
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
		t.Fatal(err)
	}
	got := until(t, l, "it is blocked", func(s reconcile.LaunchStatus) bool { return s.Blocked != "" })
	if !got.Running || !strings.Contains(got.Blocked, "of 1 clients, 1 lack memory") {
		t.Errorf("status %+v", got)
	}
	if out, err := a.Command("job", "stop", "-detach", a.Dispatched("runner")[0].ID); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got = until(t, l, "it has stopped", stopped)
	if !strings.Contains(got.Stopped, "somebody stopped its Nomad job") {
		t.Errorf("status %+v", got)
	}
}

func TestRealNomad_WatchReportsAStoppedJobOnceItsRunnerHasEnded(t *testing.T) {
	t.Parallel()
	a := nomadtest.Start(t)
	dir := t.TempDir()
	a.Run(nomadtest.RunnerJob(fmt.Sprintf("trap 'sleep 1; touch %[1]s/ended; exit' INT TERM; touch %[1]s/begun; while :; do sleep 0.1; done", dir), nil, 32))
	l := launcher(t, config.Nomad{Address: a.Addr(), Job: "runner"})
	reports := make(chan map[string]reconcile.LaunchStatus, 100)
	go l.Watch(t.Context(), func(stopped map[string]reconcile.LaunchStatus) {
		_, err := os.Stat(filepath.Join(dir, "ended"))
		if len(stopped) > 0 && err != nil {
			t.Error("the launch is reported as stopped while its runner is alive")
		}
		reports <- stopped
	})
	time.Sleep(100 * time.Millisecond) // usually it watches by then; a job that is there already is watched, too
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the job has not begun")
		}
	}
	if out, err := a.Command("job", "stop", "-detach", a.Dispatched("runner")[0].ID); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for {
		select {
		case report := <-reports:
			if s, ok := report["l1"]; ok {
				if !strings.Contains(s.Stopped, "somebody stopped its Nomad job") {
					t.Errorf("status %+v", s)
				}
				return
			}
		case <-time.After(time.Minute):
			t.Fatal("the end of the job is not reported")
		}
	}
}

func TestRealNomad_TheDocumentedPolicyIsEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "nomad.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile(`(?s)namespace "default" \{.*?\n\}`).FindString(string(text))
	capabilities := regexp.MustCompile(`"[a-z]+-[a-z]+"`).FindAllString(policy, -1)
	if len(capabilities) != 3 {
		t.Fatalf("docs/nomad.md has the policy %q", policy)
	}
	a := nomadtest.Start(t, nomadtest.WithACLs())
	a.Run(nomadtest.RunnerJob("exit", nil, 32))
	work := func(name, policy string) error {
		l := launcher(t, config.Nomad{Address: a.Addr(), Token: a.TokenFor(name, policy), Job: "runner", Namespace: "default"})
		if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
			return err
		}
		_, err := l.Status(t.Context(), []string{"l1"})
		return err
	}
	if err := work("enough", policy); err != nil {
		t.Error(err)
	}
	all := launcher(t, config.Nomad{Address: a.Addr(), Token: a.Token(), Job: "runner", Namespace: "default"})
	until(t, all, "the runner has ended", stopped)
	for i, capability := range capabilities {
		less := regexp.MustCompile(regexp.QuoteMeta(capability)+`,?`).ReplaceAllString(policy, "")
		err := work(fmt.Sprintf("less-%d", i), less)
		if !fault.NeedsPerson(err) || !strings.Contains(err.Error(), strings.Trim(capability, `"`)) {
			t.Errorf("without %s: %v", capability, err)
		}
	}
	if err := launcher(t, config.Nomad{Address: a.Addr(), Job: "runner"}).Start(t.Context(), state.Launch{ID: "l2"}); !fault.NeedsPerson(err) {
		t.Errorf("without a token: %v", err)
	}
}

func TestRealNomad_AcceptsTheExamples(t *testing.T) {
	t.Parallel()
	a := nomadtest.Start(t, nomadtest.WithVault())
	files, err := filepath.Glob(filepath.Join(testtools.Root(t), "examples", "nomad", "*.nomad.hcl"))
	if err != nil || len(files) != 3 {
		t.Fatalf("examples %q, %v", files, err)
	}
	for _, file := range files {
		if out, err := a.Command(append([]string{"job", "validate"}, append(variablesOf(t, file), file)...)...); err != nil || strings.Contains(out, "Warning") {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		if filepath.Base(file) != "runner.nomad.hcl" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a.Run(string(text))
		l := launcher(t, config.Nomad{Address: a.Addr(), Job: "terrapulse-runner"})
		if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
			t.Errorf("it cannot be dispatched: %v", err)
		}
	}
}

// variablesOf returns flags for the variables of a job that have no default.
func variablesOf(t *testing.T, file string) (flags []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?s)\nvariable "(\w+)" \{\n(.*?)\n\}`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(m[2], "default ") {
			flags = append(flags, "-var", m[1]+"=value")
		}
	}
	return flags
}
