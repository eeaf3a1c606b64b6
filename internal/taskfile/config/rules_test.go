package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

const deny = "window {\n kind = \"deny\"\n schedule = \"0 8 * * *\"\n duration = \"10h\"\n time_zone = \"UTC\"\n}\n"

func TestRules_TaskOverridesTheGlobalOnes(t *testing.T) {
	global := Rules{
		Guard:    guard.Spec{Enabled: true, Within: 15 * time.Minute, MaxRemovedPercent: 30, MinEntries: 10, MaxRemoved: new(7), HoldEmpty: true},
		Approval: approval.Spec{Rule: approval.Destructive, Expires: 24 * time.Hour, DistinctApprover: true},
		Removal:  removal.Spec{On: removal.Destroy, Approve: removal.Always},
		Windows:  []window.Window{{Kind: window.Deny, Schedule: "0 8 * * *", Duration: 10 * time.Hour, TimeZone: "UTC"}},
		Drift:    drift.Spec{Enabled: true, Every: 12 * time.Hour, Action: drift.Report},
		Checks: []policycheck.Spec{
			{Name: "a", Enabled: true, Command: []string{"judge", "a"}, OnFail: "hold", Timeout: time.Minute},
			{Name: "b", Command: []string{"judge", "b"}, OnFail: "hold", Timeout: 30 * time.Second},
		},
		Verify: []verify.Spec{{Name: "vip", Enabled: true, HTTP: &verify.HTTP{URL: "http://vip/", Method: "GET", Status: []string{"200-299"}}, Within: time.Minute, Every: 2 * time.Second, Timeout: 10 * time.Second, OnFailure: "report"}},
	}
	const checks = "check \"a\" {\n command = [\"judge\", \"a\"]\n timeout = \"1m\"\n}\ncheck \"b\" {\n command = [\"judge\", \"b\"]\n enabled = false\n}\n"
	const inFile = "on_removal = \"destroy\"\nguard {\n max_removed_percent = 30\n max_removed = 7\n on_empty = \"hold\"\n}\napproval = \"destructive\"\nrequire_distinct_approver = true\n" + "drift { every = \"12h\" }\n" + deny + checks + "verify \"vip\" {\n http { url = \"http://vip/\" }\n within = \"1m\"\n}\n"
	for _, tt := range []struct {
		name, global, task string
		want               func(*Rules) // changes what counts without the task's keys
	}{
		{"neither", "", "", func(r *Rules) { *r = defaultRules }},
		{"the global ones", inFile, "", func(*Rules) {}},
		{"one key of the guard", inFile, "guard { max_removed = 0 }", func(r *Rules) { r.Guard.MaxRemoved = new(0) }},
		{"a default that is written", inFile, "guard { max_removed_percent = 50 }", func(r *Rules) { r.Guard.MaxRemovedPercent = 50 }},
		{"on_empty", inFile, `guard { on_empty = "apply" }`, func(r *Rules) { r.Guard.HoldEmpty = false }},
		{"no guard", inFile, "guard { enabled = false }", func(r *Rules) { r.Guard.Enabled = false }},
		{"an empty guard", inFile, "guard {}", func(*Rules) {}},
		{"a plan guard without global rules", "", "guard { max_destroy = 3 }", func(r *Rules) {
			*r = defaultRules
			r.Guard.MaxDestroy = new(3)
		}},
		{"approval", inFile, `approval = "never"`, func(r *Rules) { r.Approval.Rule = approval.Never }},
		{"approval_expires", inFile, `approval_expires = "0s"`, func(r *Rules) { r.Approval.Expires = 0 }},
		{"require_distinct_approver", inFile, "require_distinct_approver = false", func(r *Rules) { r.Approval.DistinctApprover = false }},
		{"on_removal", inFile, `on_removal = "keep"`, func(r *Rules) { r.Removal.On = removal.Keep }},
		{"approve_destroy", inFile, `approve_destroy = "never"`, func(r *Rules) { r.Removal.Approve = removal.Never }},
		{"windows", inFile, "window {\n kind = \"allow\"\n schedule = \"@daily\"\n duration = \"1h\"\n on = [\"apply\"]\n allow_removals_always = true\n}", func(r *Rules) {
			r.Windows = []window.Window{{Kind: window.Allow, Schedule: "@daily", Duration: time.Hour, On: []window.Action{window.Apply}, AllowRemovalsAlways: true}}
		}},
		{"drift is applied", inFile, `drift { action = "apply" }`, func(r *Rules) { r.Drift.Action = drift.Apply }},
		{"no checks for drift", inFile, "drift { enabled = false }", func(r *Rules) { r.Drift.Enabled = false }},
		{"checks of one task", "", "drift { every = \"24h\" }", func(r *Rules) {
			*r = defaultRules
			r.Drift.Enabled = true
		}},
		{"no windows", inFile, "window = []", func(r *Rules) { r.Windows = nil }},
		{"a key of a check", inFile, `check "a" { on_fail = "fail" }`, func(r *Rules) { r.Checks[0].OnFail = "fail" }},
		{"no check", inFile, `check "a" { enabled = false }`, func(r *Rules) { r.Checks[0].Enabled = false }},
		{"a check that is off globally", inFile, `check "b" { enabled = true }`, func(r *Rules) { r.Checks[1].Enabled = true }},
		{"a key of a request", inFile, `verify "vip" { http { method = "HEAD" } }`, func(r *Rules) {
			h := *r.Verify[0].HTTP
			h.Method = "HEAD"
			r.Verify[0].HTTP = &h
		}},
		{"on_failure", inFile, `verify "vip" { on_failure = "hold" }`, func(r *Rules) { r.Verify[0].OnFailure = "hold" }},
		{"no verification", inFile, `verify "vip" { enabled = false }`, func(r *Rules) { r.Verify[0].Enabled = false }},
		{"an empty check", inFile, `check "a" {}`, func(*Rules) {}},
		{"a check beside the global ones", inFile, `check "c" { command = "judge" }`, func(r *Rules) {
			r.Checks = append(r.Checks, policycheck.Spec{Name: "c", Enabled: true, Command: []string{"judge"}, OnFail: "hold", Timeout: 30 * time.Second})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := global
			want.Checks, want.Verify = slices.Clone(global.Checks), slices.Clone(global.Verify)
			tt.want(&want)
			file := aTask(services + "\n" + tt.task)
			cfg := load(t, "f.hcl", tt.global+file)
			if diff := cmp.Diff(want, cfg.Tasks[0].Rules, ctyValues); diff != "" {
				t.Errorf("unexpected rules (-want +got):\n%s", diff)
			}
			plain := load(t, "f.hcl", aTask(services))
			if cfg.Tasks[0].Digest(cfg) != plain.Tasks[0].Digest(plain) {
				t.Error("the rules change the definition, which runs the task")
			}

			base := load(t, "f.hcl", tt.global+" ")
			made := right(t, base, asked(t, file))
			if diff := cmp.Diff(want, made.Rules, ctyValues); diff != "" {
				t.Errorf("unexpected rules of a task that is made through the API (-want +got):\n%s", diff)
			}
			if made.RulesDigest() != cfg.Tasks[0].RulesDigest() {
				t.Error("the rules of a task that is made through the API have another digest")
			}
		})
	}
}

func TestRules_WindowsOfATaskCanBeJudged(t *testing.T) {
	cfg := load(t, "f.hcl", deny+aTask(services))
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	if v := window.Judge(cfg.Tasks[0].Windows, window.Change{Action: window.Apply}, now); v.Open || !v.Next.Equal(now.Add(6*time.Hour)) {
		t.Errorf("%+v", v)
	}
}

func TestRules_DigestsCountEveryField(t *testing.T) {
	file := deny + "check \"a\" { command = \"judge\" }\n" + aTask(services)
	base := load(t, "f.hcl", file)
	rules, config, task := base.Tasks[0].RulesDigest(), base.Digest(), base.Tasks[0].Digest(base)
	for name, of := range map[string]func(*Rules) any{
		"guard": func(r *Rules) any { return &r.Guard }, "approval": func(r *Rules) any { return &r.Approval }, "removal": func(r *Rules) any { return &r.Removal }, "window": func(r *Rules) any { return &r.Windows[0] },
		"check": func(r *Rules) any { return &r.Checks[0] },
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of(&base.Rules)).Elem()) {
			if !f.IsExported() || f.Name == "People" { // see TestPerson_ChangesTheConfigurationAndNoRule
				continue
			}
			cfg := load(t, "f.hcl", file)
			tk := &cfg.Tasks[0]
			changed(t, reflect.ValueOf(of(&tk.Rules)).Elem().FieldByName(f.Name))
			if tk.RulesDigest() == rules || cfg.Digest() == config {
				t.Errorf("%s.%s does not count", name, f.Name)
			}
			if tk.Digest(cfg) != task {
				t.Errorf("%s.%s changes the definition of the task", name, f.Name)
			}
		}
	}
	if plain := load(t, "f.hcl", aTask(services)); plain.Tasks[0].RulesDigest() != (&Task{Rules: defaultRules}).RulesDigest() || plain.Tasks[0].RulesDigest() == rules {
		t.Error("the digest of the default rules is not its own")
	}
}

func TestRules_DefaultsAreThoseOfTheReference(t *testing.T) {
	file := ""
	for _, k := range schemaOf(reflect.TypeFor[guard.Keys]()).keys {
		if k.fallback != "" {
			file += k.name + " = \"" + k.fallback + "\"\n"
		}
	}
	file = "guard {\n" + file + "}\n"
	file += "approval {\n  mode = \"never\"\n  require = 1\n}\n"
	for _, k := range schemaOf(reflect.TypeFor[approval.Keys]()).keys {
		if !k.field {
			continue
		}
		file += k.name + " = \"" + k.fallback + "\"\n"
	}
	for _, text := range []string{file, " "} {
		if diff := cmp.Diff(defaultRules, load(t, "f.hcl", text).Rules, ctyValues); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}

func TestRules_WindowsThatNeverOpenAreAWarning(t *testing.T) {
	const night = "window {\n kind = \"allow\"\n schedule = \"0 22 * * *\"\n duration = \"6h\"\n}\n"
	for _, tt := range []struct{ file, want string }{
		{night, ""},
		{night + "window {\n kind = \"deny\"\n schedule = \"0 20 * * *\"\n duration = \"25h\"\n}\n", `f.hcl:1: window[0]: the windows do not open for action "apply" within a year`},
		{aTask(services + "\nwindow {\n kind = \"deny\"\n schedule = \"* * * * *\"\n duration = \"1h\"\n on = \"destroy\"\n}"), `f.hcl:5: task[0].window[0]: the windows do not open for action "destroy" within a year`},
		{"window {\n kind = \"allow\"\n schedule = \"0 0 1 1 * 2020\"\n duration = \"1h\"\n}", `f.hcl:3: window[0].schedule: the schedule "0 0 1 1 * 2020" never comes due again; remove the window, or correct the year`},
	} {
		cfg := load(t, "f.hcl", tt.file)
		if tt.want == "" {
			if len(cfg.Warnings) > 0 {
				t.Errorf("%s: %v", tt.file, cfg.Warnings)
			}
			continue
		}
		found := false
		for _, w := range cfg.Warnings {
			found = found || strings.HasPrefix(w.String(), tt.want)
		}
		if !found {
			t.Errorf("%s\nwarns:\n%v\nwant %s", tt.file, cfg.Warnings, tt.want)
		}
	}
}

func TestRules_FilesOfACheckCountByTheirContent(t *testing.T) {
	const file = "check \"a\" {\n command = \"judge\"\n files = [\"policy\"]\n}\n"
	dir := write(t, "f.hcl", file+aTask(services), "policy/a.rego", "package main", "policy/deep/b.rego", "package b")
	digest := func() (rules, task string) {
		cfg := mustLoad(t, options(dir, "f.hcl"))
		made := right(t, cfg, asked(t, strings.ReplaceAll(aTask(services), `"t"`, `"made"`)))
		if made.RulesDigest() != cfg.Tasks[0].RulesDigest() {
			t.Error("a task that is made through the API does not have the files of the global check")
		}
		return cfg.Tasks[0].RulesDigest(), cfg.Tasks[0].Digest(cfg)
	}
	rules, task := digest()
	if same, _ := digest(); same != rules {
		t.Error("the same files have another digest")
	}
	for _, change := range []func() error{
		func() error {
			return os.WriteFile(filepath.Join(dir, "policy/deep/b.rego"), []byte("package c"), 0o600)
		},
		func() error { return os.WriteFile(filepath.Join(dir, "policy/c.rego"), nil, 0o600) },
		func() error { return os.Remove(filepath.Join(dir, "policy/a.rego")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		next, same := digest()
		if next == rules {
			t.Error("a change of a file does not count")
		}
		if same != task {
			t.Error("a file of a check changes the definition, which runs the task")
		}
		rules = next
	}
}

func TestApproval_TaskInheritsEachKey(t *testing.T) {
	task := `task {
  name   = "t"
  module = "./m"
  condition "services" {
    names = ["web"]
  }
  %s
}
approval {
  mode    = "destructive"
  require = 2
  from    = ["group:network", "user:ann@example.com"]
}
api {
  access {
    group "network" { members = ["token:bob"] }
    grant {
      roles = ["approve"]
      to    = ["group:network"]
    }
  }
}
`
	both := []string{"group:network", "user:ann@example.com"}
	for block, want := range map[string]approval.Spec{
		"":                         {Rule: approval.Destructive, Require: 2, From: both},
		"approval { require = 1 }": {Rule: approval.Destructive, From: both},
		"approval { from = [] }":   {Rule: approval.Destructive, Require: 2, From: []string{}},
		`approval { from = ["token:b", "token:a", "token:a"] }`: {Rule: approval.Destructive, Require: 2, From: []string{"token:a", "token:b"}},
		`approval { mode = "always" }`:                          {Rule: approval.Always, Require: 2, From: both},
		`approval = "always"`:                                   {Rule: approval.Always, Require: 2, From: both},
	} {
		got := load(t, "f.hcl", fmt.Sprintf(task, block)).Tasks[0].Approval
		if want.Expires = approval.Default.Expires; !got.Equal(want) {
			t.Errorf("%q: %+v, want %+v", block, got, want)
		}
	}
}

func TestApproval_SoManyPeopleMayApproveAsMust(t *testing.T) {
	const access = `
api {
  access {
    person "ann" { identities = ["token:ann", "cert:ann"] }
    group "network" { members = ["person:ann", "token:bob"] }
    grant {
      roles = ["approve"]
      to    = ["group:network"]
    }
  }
}
`
	for rule, want := range map[string]string{
		`require = 2, from = ["group:network"]`:                           "",
		`require = 2, from = ["arn:aws:iam::123456789012:role/Network*"]`: "",
		`require = 5`:                           "",
		`require = 3, from = ["group:network"]`: "3 different people must approve, and from names 2",
		`require = 2, from = ["token:ann", "cert:ann", "person:ann"]`:          "2 different people must approve, and from names 1",
		`require = 2, from = ["user:Eve@example.com", "user:eve@example.com"]`: "2 different people must approve, and from names 1",
		`from = ["group:netwrok"]`: `there is no group "netwrok"`,
	} {
		file := write(t, "f.hcl", access+"approval {\n"+strings.ReplaceAll(rule, ", from", "\nfrom")+"\n}\n")
		_, err := Load(options(file, "f.hcl"))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
}

func TestApproval_ShortFormIsTheModeInEachSyntax(t *testing.T) {
	for file, text := range map[string]string{
		"f.hcl": `approval = "always"`, "b.hcl": `approval { mode = "always" }`,
		"f.json": `{"approval": "always"}`, "b.json": `{"approval": {"mode": "always"}}`,
		"f.yaml": `approval: always`, "b.yaml": "approval:\n  mode: always",
	} {
		if got := load(t, file, text).Rules.Approval; got.Rule != approval.Always || got.Require != 0 {
			t.Errorf("%s: %+v", text, got)
		}
	}
	dir := write(t, "1.hcl", `approval { require = 2 }`, "2.hcl", `approval = "always"`)
	for _, files := range [][]string{{"1.hcl", "2.hcl"}, {"2.hcl", "1.hcl"}} {
		o := options(dir, files...)
		if got := mustLoad(t, o).Rules.Approval; got.Rule != approval.Always || got.Require != 2 {
			t.Errorf("%v: %+v", files, got)
		}
	}
	_, err := Load(options(write(t, "f.hcl", "approval = \"always\"\napproval {\n require = 2\n}"), "f.hcl"))
	if want := "f.hcl:2: approval: only one 'approval' block can be configured; join the blocks"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("both forms in one file: %v, want %s", err, want)
	}
}

func TestLastMayGo_NamesTheTasksThatNothingHolds(t *testing.T) {
	task := func(name, rules string) string {
		return "task {\n  name = \"" + name + "\"\n  module = \"./m\"\n  condition \"services\" { names = [\"web\"] }\n" + rules + "}\n"
	}
	const text = `the loss of the last entry is applied without an approval (guard { on_empty = "hold" } holds it): `
	for rules, want := range map[string]string{
		"":                                text + "lb",
		"guard { enabled = false }\n":     text + "lb",
		"guard { on_empty = \"hold\" }\n": "",
		"guard { max_removed = 0 }\n":     "",
		"guard { min_entries = 1 }\n":     "",
		"approval = \"destructive\"\n":    text + "lb", // it may be a change of a resource
		"approval = \"always\"\n":         "",
	} {
		if got := load(t, "f.hcl", task("lb", rules)).LastMayGo(); got != want {
			t.Errorf("%q: %q, want %q", rules, got, want)
		}
	}
	many := ""
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		many += task(name, "")
	}
	if got := load(t, "f.hcl", many).LastMayGo(); got != text+"a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}
