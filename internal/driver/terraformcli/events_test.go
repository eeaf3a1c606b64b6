package terraformcli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	versionEvent = `{"type":"version","terraform":"1.11.4","ui":"1.2"}`
	summaryEvent = `{"type":"change_summary","changes":{"add":%d,"change":%d,"remove":%d,"operation":%q}}`
	plannedEvent = `{"type":"planned_change","change":{"resource":{"addr":%q},"action":%q}}`
)

func planned(address, action string) string { return fmt.Sprintf(plannedEvent, address, action) }

func summary(add, change, remove int) string {
	return fmt.Sprintf(summaryEvent, add, change, remove, "plan")
}

func TestEvents_CountsArePlansOnlyIfTheyAreClear(t *testing.T) {
	all := []string{planned("f.d", "delete"), planned("f.c", "create"), planned("f.u", "update"), planned("f.r", "replace"),
		planned("f.m", "move"), planned("f.i", "import"), planned("f.f", "remove"), planned("data.x", "read"),
		`{"type":"planned_action_invocation","invocation":{"action_addr":{"addr":"action.f.a"}}}`}
	for _, c := range []struct {
		name     string
		lines    []string
		complete bool
	}{
		{"all actions", append(all, summary(2, 1, 2)), true},
		{"no changes", []string{summary(0, 0, 0)}, true},
		{"a text between events", append(all, "Acquiring state lock. This may take a few moments...", summary(2, 1, 2)), true},
		{"no summary", all, false},
		{"two summaries", append(all, summary(0, 0, 0), summary(2, 1, 2)), false},
		{"an event is missing", append(all[1:], summary(2, 1, 2)), false},
		{"the summary of another operation", append(all, fmt.Sprintf(summaryEvent, 2, 1, 2, "apply")), false},
		{"an unknown action", append(all, planned("f.x", "destroy_later"), summary(2, 1, 2)), false},
		{"a broken event", append(all, `{"type":"planned_ch`, summary(2, 1, 2)), false},
	} {
		r := &eventReader{clean: func(text string) string { return text }, found: newInventory()}
		for _, line := range append([]string{versionEvent}, c.lines...) {
			r.line(line)
		}
		if r.complete() != c.complete {
			t.Errorf("%s: complete: %v", c.name, r.complete())
		}
		if c.name == "all actions" {
			want := state.Changes{Add: 2, Change: 1, Destroy: 2, Resources: []state.Resource{{Address: "action.f.a", Action: "invoke"}, {Address: "data.x", Action: "read"}, {Address: "f.c", Action: "create"},
				{Address: "f.d", Action: "delete"}, {Address: "f.f", Action: "forget"}, {Address: "f.i", Action: "import"}, {Address: "f.m", Action: "move"},
				{Address: "f.r", Action: "replace"}, {Address: "f.u", Action: "update"}}}
			if diff := cmp.Diff(want, r.changes()); diff != "" {
				t.Error(diff)
			}
		}
	}
	other := &eventReader{}
	other.line(strings.Replace(versionEvent, "1.2", "2.0", 1))
	if other.line(summary(0, 0, 0)); other.complete() {
		t.Error("events of an unknown format are believed")
	}
}

// eventful is a Terraform of a version, which prints these events of a plan, and
// another plan as JSON.
func eventful(t *testing.T, version string, events ...string) *Binary {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "terraform"+exe)
	script(t, path, `
case "$1" in
version) echo '{"terraform_version": "`+version+`"}'; exit;;
esac
echo "$@" >> `+filepath.Join(dir, "argv")+`
case "$1" in
plan) printf '%s\n' '`+strings.Join(events, "' '")+`'; exit 2;;
show) echo '{"format_version": "1.2", "resource_changes": [{"address": "f.hidden", "change": {"actions": ["delete"]}}]}';;
esac`)
	v, err := Version(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return &Binary{Path: path, Version: v}
}

func TestApplyJudged_ReadsTheWholePlanIfEventsAreUnclearOrMissing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for _, c := range []struct {
		name, version string
		events        []string
		shown         bool
	}{
		{"clear", "1.11.4", []string{versionEvent, planned("f.a", "create"), summary(1, 0, 0)}, false},
		{"contradicting", "1.11.4", []string{versionEvent, planned("f.a", "create"), summary(1, 0, 1)}, true},
		{"of a version without events", "0.14.11", []string{"Plan: 1 to add, 0 to change, 0 to destroy."}, true},
	} {
		f := newFixture(t, fileModule)
		f.bin = eventful(t, c.version, c.events...)
		j := &judged{}
		if _, err := f.open().ApplyJudged(t.Context(), j.judge); err != nil {
			t.Fatal(err)
		}
		argv := f.bin.recorded(t, "argv")
		if (j.plans[0].JSON != nil) != c.shown || strings.Contains(argv, "show") != c.shown {
			t.Errorf("%s: the plan was read as a whole: %v\n%s", c.name, !c.shown, argv)
		}
		if strings.Contains(argv, " -json") != (c.version != "0.14.11" || c.shown) {
			t.Errorf("%s: %s", c.name, argv)
		}
	}
}

// wrongModule fails in a plan, with a secret in the error.
const wrongModule = `
variable "services" {}
resource "terraform_data" "a" {
  lifecycle {
    precondition {
      condition     = length(var.services) > 5
      error_message = "Only these: ${join(",", keys(var.services))}."
    }
  }
}
`

func TestApplyJudged_ErrorsAreThoseOfAnApply(t *testing.T) {
	f := newFixture(t, wrongModule)
	d := f.open(func(o *Options) { o.Secrets = []string{"hunter22"} })
	f.render("hunter22")
	f.init(d, true)
	var texts []string
	for _, apply := range []func() error{
		func() error { _, err := d.Apply(t.Context()); return err },
		func() error { _, err := d.ApplyJudged(t.Context(), (&judged{}).judge); return err },
	} {
		err := apply()
		if err == nil {
			t.Fatal("a plan with an error was applied")
		}
		for _, want := range []string{"Resource precondition failed", "Only these: (redacted)."} {
			if !strings.Contains(err.Error(), want) || !strings.Contains(f.log.String(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		_, text, _ := strings.Cut(err.Error(), ": ")
		texts = append(texts, strings.Join(strings.Fields(strings.ReplaceAll(text, "├────────────────", "")), " "))
	}
	if strings.ReplaceAll(texts[0], "│ ", "") != texts[1] {
		t.Errorf("an apply says\n%s\nand a judged one\n%s", texts[0], texts[1])
	}
	if log := f.log.String(); strings.Contains(log, "hunter22") || strings.Contains(log, `"@level"`) {
		t.Errorf("the log shows a secret, or events: %s", log)
	}
}

func TestApplyJudged_SaysWhatItPlansAndPrintsThePlanOnDemand(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open(func(o *Options) { o.Secrets = []string{"api-1234"} })
	f.render("api-1234")
	f.init(d, true)
	text := ""
	_, err := d.ApplyJudged(t.Context(), func(ctx context.Context, p Plan, _ StateMark) (err error) {
		if log := f.log.String(); !strings.Contains(log, "module.web.local_file.names: Plan to create\nPlan: 1 to add, 0 to change, 0 to destroy.") {
			t.Errorf("the log says %s", log)
		}
		text, err = p.Print(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const content = `+ content              = "(redacted)"`
	if !strings.Contains(text, content) || !strings.Contains(f.log.String(), content) || strings.Contains(f.log.String(), "api-1234") {
		t.Errorf("the plan is\n%s\nthe log\n%s", text, f.log.String())
	}
}

func TestApplyJudged_InitialisesTheDirectoryIfThePlanRequiresIt(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	if _, err := d.ApplyJudged(t.Context(), (&judged{}).judge); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api" {
		t.Errorf("%q was applied", got)
	}
}
