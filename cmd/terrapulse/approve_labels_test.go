package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// sites are tasks that wait with plans at two sites, in a store and in task files.
func sites(t *testing.T) (path, file string, store state.Store, cfg *config.Config) {
	t.Helper()
	now := time.Now().UTC()
	var all []situation
	var text strings.Builder
	for i, name := range []string{"fw-1", "fw-2", "vpn"} {
		wait := &state.Wait{For: state.WaitApproval, ID: "plan-of-" + name, Since: now, Causes: []state.Cause{{Rule: state.RuleApproval, Text: "it has to be approved"}},
			Content: &state.Content{Definition: "d", Input: "i", Plan: name}}
		run := state.Run{ID: fmt.Sprintf("01a201e4-2442-7a95-affe-%012d", i), Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: wait}, Created: now,
			Work: state.Work{Changes: &state.Changes{Add: 1, Destroy: i + 1}}}
		all = append(all, situation{name: name, task: state.Task{Run: &state.LiveRun{ID: run.ID, Created: now, Wait: wait}}, run: run})
		site := map[bool]string{true: "muc", false: "ber"}[strings.HasPrefix(name, "fw")]
		fmt.Fprintf(&text, "task {\n  name = %q\n  module = \"./m\"\n  condition \"services\" { names = [\"web\"] }\n  labels = { site = %q }\n}\n", name, site)
	}
	path, store, cfg = stored(t, now, all)
	for i := range cfg.Tasks {
		cfg.Tasks[i].Labels = map[string]string{"site": map[bool]string{true: "muc", false: "ber"}[strings.HasPrefix(cfg.Tasks[i].Name, "fw")]}
	}
	file = filepath.Join(t.TempDir(), "tasks.hcl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, file, store, cfg
}

func approved(t *testing.T, store state.Store) (names []string) {
	t.Helper()
	for _, name := range []string{"fw-1", "fw-2", "vpn"} {
		known, err := state.Read[state.Task](t.Context(), store, state.TaskKey(name))
		if err != nil {
			t.Fatal(err)
		}
		if known.Data.Run.Resume != nil {
			names = append(names, name)
		}
	}
	return names
}

func TestStatus_ListsTheTasksWithALabel(t *testing.T) {
	path, file, store, cfg := sites(t)
	for _, from := range [][]string{{"-http-addr=" + serveStored(t, store, cfg)}, {"-store=sqlite:" + path, "-config-file=" + file}} {
		text, _ := commandOf(t, exitOK, append([]string{"status", "-label", "site=muc"}, from...)...)
		wantText(t, text, "fw-1", "fw-2", "Listed: 2 of 3 tasks")
	}
	_, errs := commandOf(t, exitError, "status", "-label=site=muc", "-store=sqlite:"+path)
	wantText(t, errs, "this needs what is in the task files: name them with -config-file")
	_, errs = commandOf(t, exitFlags, "status", "-label=muc")
	wantText(t, errs, "use KEY=VALUE, such as site=muc")
}

func TestApprove_LabelListsEachPlanAndAsks(t *testing.T) {
	for _, answer := range []string{"no", "yes"} {
		path, file, store, _ := sites(t)
		var out, errs testtools.Output
		a := &app{ctx: t.Context(), program: ownName, stdin: strings.NewReader(answer + "\n"), stdout: &out, stderr: &errs}
		code := a.run([]string{"approve", "-label=site=muc", "-store=sqlite:" + path, "-config-file=" + file})
		wantText(t, out.String(), "Plan plan-of-fw-1 of task fw-1", "1 to add, 0 to change, 2 to destroy", "Together: 2 to add, 0 to change, 3 to destroy", "Approve these 2 plans?")
		got := strings.Join(approved(t, store), " ")
		if want := map[string]string{"no": "", "yes": "fw-1 fw-2"}[answer]; got != want || code != exitOK {
			t.Errorf("%s: approved are %q, want %q: %d %s", answer, got, want, code, &errs)
		}
	}
}

func TestApprove_LabelApprovesOnlyWhatIsListed(t *testing.T) {
	_, _, store, cfg := sites(t)
	url := serveStored(t, store, cfg)
	cfg.Tasks[1].Approval.From = []string{"token:bob"}
	text, errs := commandOf(t, exitError, "approve", "-label=site=muc", "-yes", "-http-addr="+url)
	wantText(t, text, "Approved: 1 of 2 plans")
	wantText(t, errs, "Not approved: task fw-2: ")
	if got := strings.Join(approved(t, store), " "); got != "fw-1" {
		t.Errorf("approved are %q", got)
	}
	_, errs = commandOf(t, exitError, "approve", "-label=site=rom", "-yes", "-http-addr="+url)
	wantText(t, errs, "no plan of these tasks waits for an approval")
	_, errs = commandOf(t, exitFlags, "approve", "-label=site=muc", "-http-addr="+url, "fw-1")
	wantText(t, errs, "-label selects the tasks: leave out TASK")
	_, errs = commandOf(t, exitFlags, "approve", "-label=site=muc", "-http-addr="+url, "-json")
	wantText(t, errs, "give -yes, too")
}

func TestEvents_ListThoseOfTasksWithALabel(t *testing.T) {
	path, file, store, cfg := sites(t)
	for i, task := range []string{"fw-1", "vpn"} {
		event := outbox.Event{Kind: outbox.HoldBegun, Seq: uint64(i + 1), At: time.Now(), Task: task, By: "ann", Detail: "rack of " + task}
		if _, err := store.Apply(t.Context(), outbox.NewEvents(event).Changes()...); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range [][]string{{"-http-addr=" + serveStored(t, store, cfg)}, {"-store=sqlite:" + path, "-config-file=" + file}} {
		text, _ := commandOf(t, exitOK, append([]string{"events", "-label", "site=muc"}, from...)...)
		if wantText(t, text, "rack of fw-1"); strings.Contains(text, "vpn") {
			t.Errorf("with %s, events of other tasks are listed: %s", from, text)
		}
	}
	_, errs := commandOf(t, exitError, "events", "-label=site=muc", "-store=sqlite:"+path)
	wantText(t, errs, "this needs what is in the task files: name them with -config-file")
	_, errs = commandOf(t, exitFlags, "events", "-label=muc")
	wantText(t, errs, "use KEY=VALUE, such as site=muc")
}
