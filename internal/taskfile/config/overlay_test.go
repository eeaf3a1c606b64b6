package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is a file's only task in the JSON form of the API; "" if the file has
// something else.
func asked(t *testing.T, file string) string {
	root := nested(parsed(t, "f.hcl", []byte(file)))
	if strings.Contains(file, "condition {}") { // this is how the API writes that there is none
		return ""
	}
	if len(root.entries) != 1 || root.entries[0].key != "task" || root.entries[0].value.kind != kindObject {
		return ""
	}
	task := root.entries[0].value
	for _, e := range task.entries {
		if e.key != "condition" && e.key != "module_input" {
			continue
		}
		for i, kind := range e.value.entries {
			e.value.entries[i].key = strings.ReplaceAll(kind.key, "-", "_")
		}
	}
	return inJSON(t, task)
}

// wrong parses a definition that must be refused, and returns what is said.
func wrong(t *testing.T, cfg *Config, definition string) string {
	t.Helper()
	task, err := cfg.Parse([]byte(definition))
	if list := (Errors)(nil); err == nil || task != nil || !errors.As(err, &list) {
		t.Fatalf("not refused as a configuration error: %v, %v\n%s", task, err, definition)
	}
	return err.Error()
}

func right(t *testing.T, cfg *Config, definition string) *Task {
	t.Helper()
	task, err := cfg.Parse([]byte(definition))
	if err != nil {
		t.Fatalf("refused: %v\n%s", err, definition)
	}
	return task
}

func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

func TestParse_ReportsAMistakeAsInAFile(t *testing.T) {
	place := regexp.MustCompile(`(?m)^f\.hcl:\d+: `)
	tried := 0
	for _, tt := range catalogue {
		definition := asked(t, tt.file)
		if definition == "" {
			continue
		}
		tried++
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(place.ReplaceAllString(tt.want, ""), "task[0]", "task")
			got := wrong(t, new(Config), definition)
			if slices.Compare(sortedLines(got), sortedLines(want)) != 0 { // there are no lines to sort them by
				t.Errorf("said:\n%s\nwant:\n%s\nof:\n%s", got, want, definition)
			}
		})
	}
	if tried < 35 {
		t.Errorf("only %d mistakes of the catalogue are those of one task", tried)
	}
}

func TestParse_TaskMeansTheSameAsInAFile(t *testing.T) {
	for name, inside := range map[string]string{
		"services":             services,
		"a regexp":             `condition "services" { regexp = "^web" }`,
		"the whole of it":      "description = \"of a test\"\nenabled = false\nversion = \"1.2.3\"\nproviders = [\"local.x\"]\nbuffer_period {\n enabled = true\n min = \"2s\"\n max = \"9s\"\n}\nvariables { a = 1 }\n" + services,
		"catalog-services":     `condition "catalog-services" { regexp = ".*" }`,
		"KV":                   "condition \"consul-kv\" {\n path = \"a/b\"\n recurse = true\n}\n",
		"a schedule":           "condition \"schedule\" { cron = \"*/10 * * * *\" }\nmodule_input \"services\" { names = [\"web\"] }\nmodule_input \"consul-kv\" { path = \"a\" }",
		"a schedule, one more": "condition \"schedule\" { cron = \"*/10 * * * *\" }\nmodule_input \"consul-kv\" { path = \"a\" }",
		"no condition":         "",
		"a buffer turned off":  services + "\nbuffer_period { enabled = false }",
	} {
		t.Run(name, func(t *testing.T) {
			file := aTask(inside)
			cfg := load(t, "f.hcl", "working_dir = \"here\"\nbuffer_period { min = \"3s\" }\nterraform_provider \"local\" { alias = \"x\" }\n"+file)
			base := load(t, "f.hcl", "working_dir = \"here\"\nbuffer_period { min = \"3s\" }\nterraform_provider \"local\" { alias = \"x\" }\n")
			base.dir = cfg.dir // each test file has a directory of its own
			definition := strings.Replace(asked(t, file), `"1"`, `1`, 1)
			got := right(t, base, definition)
			want := cfg.Tasks[0]
			if !got.FromAPI || got.Source != (Position{}) {
				t.Errorf("it says of itself: from the API %v, in %s", got.FromAPI, got.Source)
			}
			if got.Digest(base) != want.Digest(cfg) || got.Identity(base) != want.Identity(cfg) {
				t.Error("its digest is another one")
			}
			got.FromAPI, got.Source, got.path, got.places = want.FromAPI, want.Source, want.path, want.places
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestParse_RefusesWhatIsNotATask(t *testing.T) {
	for definition, want := range map[string]string{
		``:                                       "unexpected end",
		`{`:                                      "unexpected end",
		`[]`:                                     "not an object",
		`"x"`:                                    "not an object",
		`null`:                                   "not an object",
		`{"name":"x"`:                            "unexpected end",
		`{"name":"x","module":"./x"} {}`:         "more than one value",
		`{"name":1,"module":"./x"}`:              "task.name",
		`{"name":["x"],"module":"./x"}`:          "task.name",
		`{"name":"x","name":"y","module":"./x"}`: "duplicate key",
		`{"name":"a/b","module":"./x"}`:          "a task name must start with a letter",
		`{"name":"../b","module":"./x"}`:         "a task name must start with a letter",
		`{"name":"` + strings.Repeat("x", 201) + `","module":"./x"}`:                     "too long",
		`{"name":"x","module":"./x","condition":"services"}`:                             "task.condition",
		`{"name":"x","module":"./x","condition":{"services":1}}`:                         "task.condition.services",
		`{"name":"x","module":"./x","condition":{"services":{},"consul_kv":{}}}`:         "only one condition but got 2",
		`{"name":"x","module":"./x","condition":{"schedule":{"cron":"0 0 1 1 * 2020"}}}`: "never comes due again; correct the year",
		`{"name":"x","module":"./x","enabled":"perhaps"}`:                                "task.enabled",
		`{"name":"x","module":"./x","variables":{"x":"text"}}`:                           "not a literal value",
		`{"name":"x","module":"./x","buffer_period":{"min":5}}`:                          "task.buffer_period.min",
		`{"name":"x","module":"./x","module_input":{"catalog_services":{}}}`:             "unsupported module_input type",
		`{"name":"x","module":"./x","terraform_provider":{"a":{}}}`:                      "task.terraform_provider",
		`{"name":"x","module":"./x","description":"{{ env \"HOME\" }}"}`:                 "only supported for terraform_provider",
		strings.Repeat(`{"condition":`, 20000) + `1` + strings.Repeat(`}`, 20000):        "",
	} {
		if got := wrong(t, new(Config), definition); !strings.Contains(got, want) {
			t.Errorf("%.80s\nsaid %.300s\nwant %s", definition, got, want)
		}
	}
}

// A stored task stays valid if its group is removed from the files later.
func TestParse_RefusesApproversThatDoNotExist(t *testing.T) {
	cfg := load(t, "f.hcl", `
api {
  token = "{{ env \"API_TOKEN\" }}"
  access {
    grant {
      roles = ["administer"]
      to    = ["group:network"]
    }
    group "network" {
      members = ["token:ann"]
    }
  }
}
`)
	for approval, want := range map[string]string{
		`{"from":["group:network"]}`:             "",
		`{"from":["group:netwrok"]}`:             `netwrok`,
		`{"from":["person:ann"]}`:                `person`,
		`{"from":["group:network"],"require":2}`: "2 different people must approve, and from names 1",
	} {
		definition := []byte(`{"name":"x","module":"./x","condition":{"services":{"names":["web"]}},"approval":` + approval + `}`)
		if _, err := cfg.Parse(definition); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", approval, err, want)
		}
		if _, err := cfg.parse(definition, true, false, cfg.others()); err != nil {
			t.Errorf("a stored task with %s: %v", approval, err)
		}
	}
}

func TestParse_RefusesWhatOtherTasksHave(t *testing.T) {
	cfg := load(t, "f.hcl", `
terraform_provider "panos" { auto_commit = true }
terraform_provider "panos" {
  alias = "spare"
  auto_commit = true
}
terraform_provider "local" {}
task {
  name = "web"
  module = "./m"
  working_dir = "sync-tasks/api"
  providers = ["panos", "local", "null"]
}`)
	for definition, want := range map[string]string{
		`{"name":"web","module":"./x"}`:                       `task.name: duplicate task name: "web" (f.hcl:8) exists already; give each task a name of its own`,
		`{"name":"Web","module":"./x"}`:                       `task.name: the task names "Web" and "web" (f.hcl:8) differ only in case: on macOS and Windows the two tasks would share a folder; rename one of them`,
		`{"name":"api","module":"./x"}`:                       `task.name: "sync-tasks/api" is the working directory of task "web" already; give each task a working_dir of its own`,
		`{"name":"x","module":"./x","providers":["panos"]}`:   `task.providers: provider with autocommit (panos) cannot be used by more than one task, and task "web" uses it; configure another instance with an alias`,
		`{"name":"web","module":"","providers":["a","a.b"]}`:  `task.providers[1]: only one provider instance per task`,
		`{"name":"api","module":"./x","providers":["panos"]}`: `provider with autocommit (panos)`,
	} {
		if got := wrong(t, cfg, definition); !strings.Contains(got, want) {
			t.Errorf("%s\nsaid %s\nwant %s", definition, got, want)
		}
	}
	right(t, cfg, `{"name":"other","module":"./x"}`)
	right(t, cfg, `{"name":"other","module":"./x","providers":["panos.spare","local","null"]}`)
	named := right(t, cfg, `{"name":"other","module":"./x","variables":{"consul_kv":"1"}}`)
	if _, ok := named.Variables["consul_kv"]; !ok {
		t.Errorf("a variable that is called like a type of condition is %v", named.Variables)
	}
	if before := load(t, "f.hcl", `task {
  name = "web"
  module = "./m"
}`); len(cfg.Tasks) != 1 || before.Tasks[0].Name != cfg.Tasks[0].Name {
		t.Error("parsing has changed the configuration")
	}
}

// base is what a file says of tasks a, b and c, of which c is disabled.
func base() *Config {
	var c Config
	for _, name := range []string{"a", "b", "c"} {
		c.Tasks = append(c.Tasks, Task{Name: name, Module: "./" + name, Enabled: name != "c", Source: Position{File: "f.hcl", Line: 1}})
	}
	return &c
}

func of(t *testing.T, c *Config, name string) Task {
	t.Helper()
	task, ok := c.Task(name)
	if !ok {
		t.Fatalf("there is no task %s", name)
	}
	return *task
}

// said is what counts, in short.
func said(c *Config) string {
	var all []string
	for _, t := range c.Tasks {
		how := t.Module
		if t.FromAPI {
			how += " of the API"
		}
		if !t.Enabled {
			how += " disabled"
		}
		all = append(all, t.Name+" "+how)
	}
	return strings.Join(all, ", ")
}

func TestWith_AppliesChangesToTheFiles(t *testing.T) {
	yes, no := true, false
	def := func(name string) []byte { return fmt.Appendf(nil, `{"name":%q,"module":"example.com/%[1]s"}`, name) }
	b := base()
	gone := of(t, b, "b")
	for _, tt := range []struct {
		name     string
		changes  []Change
		want     string
		problems string
	}{
		{"nothing", nil, "a ./a, b ./b, c ./c disabled", ""},
		{"one disabled, one enabled", []Change{{Task: "a", Enabled: &no}, {Task: "c", Enabled: &yes}}, "a ./a disabled, b ./b, c ./c", ""},
		{"what is so", []Change{{Task: "a", Enabled: &yes}, {Task: "c", Enabled: &no}}, "a ./a, b ./b, c ./c disabled", ""},
		{"one made", []Change{{Task: "d", Definition: def("d")}}, "a ./a, b ./b, c ./c disabled, d example.com/d of the API", ""},
		{"one made and disabled", []Change{{Task: "d", Definition: def("d"), Enabled: &no}}, "a ./a, b ./b, c ./c disabled, d example.com/d of the API disabled", ""},
		{"two made, in the order of their making", []Change{{Task: "e", Definition: def("e")}, {Task: "d", Definition: def("d")}},
			"a ./a, b ./b, c ./c disabled, e example.com/e of the API, d example.com/d of the API", ""},
		{"one deleted", []Change{{Task: "b", Deleted: gone.Identity(b)}}, "a ./a, c ./c disabled", ""},
		{"one deleted that was changed since", []Change{{Task: "b", Deleted: "another"}}, "a ./a, b ./b, c ./c disabled", ""},
		{"one deleted and made anew", []Change{{Task: "b", Deleted: gone.Identity(b), Definition: def("b")}}, "a ./a, c ./c disabled, b example.com/b of the API", ""},
		{"the same, disabled", []Change{{Task: "b", Deleted: gone.Identity(b), Definition: def("b"), Enabled: &no}}, "a ./a, c ./c disabled, b example.com/b of the API disabled", ""},
		{"one that was disabled stays disabled when the file's task comes back", []Change{{Task: "b", Deleted: "another", Definition: def("b"), Enabled: &no}},
			"a ./a, b ./b disabled, c ./c disabled", `task "b" was made through the API and is in f.hcl:1 now`},
		{"one that a file has gained", []Change{{Task: "a", Definition: def("a")}}, "a ./a, b ./b, c ./c disabled", `task "a" was made through the API`},
		{"one that a file has lost", []Change{{Task: "gone", Enabled: &no}, {Task: "gone too", Deleted: "x"}}, "a ./a, b ./b, c ./c disabled", ""},
		{"a definition of another name", []Change{{Task: "d", Definition: def("e")}}, "a ./a, b ./b, c ./c disabled", `kept for task "d" is that of "e"`},
		{"a definition that is none", []Change{{Task: "d", Definition: []byte("{")}, {Task: "e", Definition: def("e")}},
			"a ./a, b ./b, c ./c disabled, e example.com/e of the API", "not valid JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := b.With(tt.changes)
			if said(got) != tt.want {
				t.Errorf("got  %s\nwant %s", said(got), tt.want)
			}
			switch {
			case len(problems) > 1 || (len(problems) == 1) != (tt.problems != ""):
				t.Errorf("problems: %v", problems)
			case tt.problems != "":
				if err := problems[tt.changes[0].Task]; err == nil || !strings.Contains(err.Error(), tt.problems) {
					t.Errorf("problems: %v", problems)
				}
			}
			if !reflect.DeepEqual(b, base()) {
				t.Error("what the files say was changed")
			}
			if len(tt.changes) == 0 && got != b {
				t.Error("without a change the configuration is copied")
			}
		})
	}
}

func TestWith_TwoTasksMayNotShareAWorkingDirectory(t *testing.T) {
	got, problems := base().With([]Change{
		{Task: "d", Definition: []byte(`{"name":"d","module":"./d","working_dir":"x"}`)},
		{Task: "e", Definition: []byte(`{"name":"e","module":"./e","working_dir":"x"}`)},
	})
	if _, ok := got.Task("d"); !ok {
		t.Error("the first is gone")
	}
	if _, ok := got.Task("e"); ok || problems["e"] == nil || !strings.Contains(problems["e"].Error(), `"x" is the working directory of task "d" already`) {
		t.Errorf("%s, %v", said(got), problems)
	}
}

func TestWith_OnlyOneTaskTakesTheStateOfAFormerName(t *testing.T) {
	got, problems := base().With([]Change{
		{Task: "d", Definition: []byte(`{"name":"d","module":"./d","moved_from":["old"],"enabled":"perhaps"}`)},
		{Task: "e", Definition: []byte(`{"name":"e","module":"./e","moved_from":["old"]}`)},
		{Task: "f", Definition: []byte(`{"name":"f","module":"./f","moved_from":["old"]}`)},
	})
	if _, ok := got.Task("e"); !ok || problems["d"] == nil {
		t.Errorf("a task that is wrong keeps another from the state: %v", problems)
	}
	if _, ok := got.Task("f"); ok || problems["f"] == nil || !strings.Contains(problems["f"].Error(), `the tasks "e" and "f" are both moved from "old"`) {
		t.Errorf("%s, %v", said(got), problems)
	}
}

func TestWith_DeletedTaskReturnsOnlyAfterItsBlockChanges(t *testing.T) {
	const block = "  module = \"example.com/m\"\n  buffer_period { min = \"3s\" }\n  description = \"x\"\n" +
		"  providers = [\"local\"]\n  variable_files = [\"v.tfvars\"]\n"
	file := func(name, block, others, variables string) *Config {
		dir := write(t, "f.hcl", "task {\n  name = \"t\"\n"+block+"}\n"+others, "v.tfvars", variables)
		o := options(dir, "f.hcl")
		if name == "where Consul is" {
			o.Getenv = environment(map[string]string{"CONSUL_HTTP_ADDR": "consul:8500"})
		}
		return mustLoad(t, o)
	}
	was := file("", block, "", "a = 1")
	gone := []Change{{Task: "t", Deleted: was.Tasks[0].Identity(was)}}
	for name, others := range map[string]string{
		"nothing":               "",
		"where Consul is":       "",
		"Terraform":             `driver "terraform" { version = "1.11.4" }`,
		"where states are":      `driver "terraform" { backend "local" {} }`,
		"a provider":            `terraform_provider "local" { x = 1 }`,
		"the version of it":     `driver "terraform" { required_providers { local = "1.0.0" } }`,
		"the buffer period":     `buffer_period { max = "1h" }`,
		"the working directory": `working_dir = "elsewhere"`,
	} {
		now := file(name, block, others, "a = 1")
		now.Tasks[0].ModuleDigest = name
		if got, _ := now.With(gone); len(got.Tasks) > 0 {
			t.Errorf("it comes back because %s has changed", name)
		}
	}
	if got, _ := file("", block, "", "a = 2").With(gone); len(got.Tasks) > 0 {
		t.Error("it comes back because its variable file has changed")
	}
	for _, tt := range []struct {
		name, block string
		there       bool
	}{
		{"in another order", "  description = \"x\"\n\n" + strings.Replace(block, "  description = \"x\"\n", "", 1), false},
		{"disabled", block + "  enabled = false\n", false},
		{"another description", strings.Replace(block, `"x"`, `"y"`, 1), true},
		{"another buffer period", strings.Replace(block, `"3s"`, `"4s"`, 1), true},
		{"a version", block + "  version = \"1.0.0\"\n", true},
		{"a condition", block + services + "\n", true},
		{"a variable", block + "  variables { b = 1 }\n", true},
		{"a working directory", block + "  working_dir = \"x\"\n", true},
	} {
		got, _ := file("", tt.block, "", "a = 1").With(gone)
		if _, there := got.Task("t"); there != tt.there {
			t.Errorf("%s: there is %v", tt.name, there)
		}
	}
}

// The same override of the same definition always has the same digest, and an override
// of one task changes no digest of another.
func TestWith_KeepsDigestsOfOtherTasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	yes, no := true, false
	for range 500 {
		b := base()
		var changes []Change
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			ch := Change{Task: name}
			switch rng.IntN(5) {
			case 0:
				continue
			case 1:
				ch.Enabled = &yes
			case 2:
				ch.Enabled = &no
			case 3:
				ch.Definition = fmt.Appendf(nil, `{"name":%q,"module":"./m%d"}`, name, rng.IntN(3))
			case 4:
				if task, ok := b.Task(name); ok {
					ch.Deleted = task.Identity(b)
				}
			}
			changes = append(changes, ch)
		}
		got, problems := b.With(changes)
		again, _ := base().With(changes)
		if got.Digest() != again.Digest() {
			t.Fatalf("%+v: two digests", changes)
		}
		for i := range got.Tasks {
			task := &got.Tasks[i]
			alone, _ := b.With(slices.DeleteFunc(slices.Clone(changes), func(ch Change) bool { return ch.Task != task.Name }))
			other := of(t, alone, task.Name)
			if task.Digest(got) != other.Digest(alone) || task.Enabled != other.Enabled {
				t.Fatalf("%+v: task %s is %+v, and alone %+v", changes, task.Name, task, other)
			}
		}
		for _, ch := range changes {
			task, there := got.Task(ch.Task)
			_, filed := b.Task(ch.Task)
			switch {
			case ch.Enabled != nil && there && task.Enabled != *ch.Enabled,
				ch.Deleted != "" && there,
				len(ch.Definition) > 0 && !there,
				len(ch.Definition) > 0 && filed != (problems[ch.Task] != nil),
				len(ch.Definition) > 0 && filed == task.FromAPI:
				t.Fatalf("%+v became %+v, with %v", ch, task, problems)
			}
		}
	}
}

func TestParse_TakesTheModuleDigestOfAnotherTask(t *testing.T) {
	b := base()
	b.Tasks[0].Module, b.Tasks[0].ModuleDigest = "a", "the files of a"
	made := Change{Task: "d", Definition: []byte(`{"name":"d","module":"./a"}`)}
	got, _ := b.With([]Change{made})
	want := of(t, got, "d")
	if want.ModuleDigest != "the files of a" {
		t.Errorf("it knows %q", want.ModuleDigest)
	}
	other, _ := b.With([]Change{{Task: "d", Definition: []byte(`{"name":"d","module":"./b"}`)}})
	if of := of(t, other, "d"); of.ModuleDigest != "" {
		t.Errorf("of another module it knows %q", of.ModuleDigest)
	}
	// Also where the file's task that uses it was deleted.
	got, _ = b.With([]Change{made, {Task: "a", Deleted: b.Tasks[0].Identity(b)}})
	if there := of(t, got, "d"); there.Digest(got) != want.Digest(got) {
		t.Error("its definition is another one, for the other task's deletion")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"name":"e1","description":"","enabled":true,"module":"./mod","version":"","providers":[],"variables":{"x":"1"},"buffer_period":{"enabled":true,"min":"5s","max":"20s"},"condition":{"services":{"names":["web"],"use_as_module_input":true}},"module_input":{"consul_kv":{"path":"a"}}}`))
	f.Add([]byte(`{"name":"e1","module":"m","condition":{"schedule":{"cron":"* * * * *"}}}`))
	f.Add([]byte(`{"condition":[{"consul_kv":null}],"module_input":[[]]}`))
	f.Fuzz(func(t *testing.T, definition []byte) {
		c := &Config{WorkingDir: "sync-tasks"}
		task, err := c.Parse(definition)
		if err != nil {
			return
		}
		if !json.Valid(definition) {
			t.Fatalf("taken: %q", definition)
		}
		got, problems := c.With([]Change{{Task: task.Name, Definition: definition}})
		if again := of(t, got, task.Name); len(problems) > 0 || again.Digest(got) != task.Digest(c) {
			t.Fatalf("%v", problems)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	c := &Config{WorkingDir: "sync-tasks"}
	for range b.N {
		if _, err := c.Parse([]byte(`{"name":"e1","module":"./mod","condition":{"services":{"names":["web"]}}}`)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(time.Microsecond), "µs/task")
}

// What was right when it was made stays a task, and keeps no other from being read.
func TestLoad_AcceptsAScheduleThatHasEnded(t *testing.T) {
	const over = "condition \"schedule\" { cron = \"0 0 1 1 * 2020\" }\nmodule_input \"services\" { names = [\"web\"] }"
	cfg := load(t, "f.hcl", aTask(over))
	if len(cfg.Tasks) != 1 || len(cfg.Warnings) != 1 || cfg.Warnings[0].String() !=
		`f.hcl:4: task[0].condition.schedule.cron: the schedule "0 0 1 1 * 2020" never comes due again; remove the task, or correct the year` {
		t.Errorf("tasks %v, warnings %v", cfg.Tasks, cfg.Warnings)
	}

	next, problems := cfg.With([]Change{{Task: "u", Definition: []byte(`{"name":"u","module":"./m","condition":{"schedule":{"cron":"0 0 1 1 * 2020"}}}`)}})
	if _, ok := next.Task("u"); !ok || len(problems) > 0 {
		t.Errorf("a task that was made through the API is gone: %v", problems)
	}
}
