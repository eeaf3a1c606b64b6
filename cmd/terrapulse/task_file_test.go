package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// A task that is sent to the API is the task that the file would have been.
func TestTaskFile_IsSentAsTheSameTask(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.tfvars", "text = \"a \\\"b\\\" $${c}\\n\"\nlist = [1, \"two\", { three = null }]\nnothing = null\nbig = 12345678901234567890.125\n")
	write("b.tfvars", `list = ["later"]`)
	for name, body := range map[string]string{
		"services":   "condition \"services\" {\n names = [\"web\", \"api\"]\n datacenter = \"dc2\"\n namespace = \"ns\"\n filter = \"Checks.Status == \\\"passing\\\"\"\n cts_user_defined_meta {\n  a = \"b\"\n }\n use_as_module_input = false\n}",
		"regexp":     "condition \"services\" {\n regexp = \"\"\n}\nmodule_input \"consul-kv\" {\n path = \"a/b\"\n recurse = true\n datacenter = \"dc2\"\n namespace = \"ns\"\n}",
		"catalog":    "condition \"catalog-services\" {\n regexp = \"^web\"\n datacenter = \"dc2\"\n namespace = \"ns\"\n node_meta {\n  \"k\" = \"v\"\n }\n}",
		"kv":         "condition \"consul-kv\" {\n path = \"a\"\n use_as_module_input = false\n}\nmodule_input \"services\" {\n regexp = \".*\"\n}",
		"entries":    "condition \"config-entries\" {\n kind = \"service-intentions\"\n regexp = \"^web\"\n datacenter = \"dc2\"\n namespace = \"ns\"\n use_as_module_input = false\n}\nmodule_input \"resources\" {\n group = \"demo\"\n version = \"v1\"\n kind = \"album\"\n}",
		"resources":  "condition \"resources\" {\n group = \"Demo\"\n version = \"v2\"\n kind = \"Artist\"\n name_prefix = \"k\"\n namespace = \"ns\"\n interval = \"1m30s\"\n use_as_module_input = false\n}\nmodule_input \"config-entries\" {\n kind = \"mesh\"\n name = \"mesh\"\n}",
		"schedule":   "condition \"schedule\" {\n cron = \"*/10 * * * *\"\n}\nmodule_input \"services\" {\n names = [\"web\"]\n}",
		"none":       "",
		"everything": "condition \"services\" {\n names = [\"web\"]\n}\ndescription = \"what\"\nenabled = false\nversion = \"1.2.3\"\nproviders = [\"aws\", \"local.a\"]\nvariable_files = [\"a.tfvars\", \"b.tfvars\"]\nvariables = {\n text = \"\\\"hidden\\\"\"\n n = \"3\"\n}",
		"min":        "condition \"services\" {\n names = [\"web\"]\n}\nbuffer_period {\n min = \"7s\"\n}",
		"max":        "condition \"services\" {\n names = [\"web\"]\n}\nbuffer_period {\n max = \"1h2m\"\n}",
		"on":         "condition \"services\" {\n names = [\"web\"]\n}\nbuffer_period {\n enabled = true\n}",
		"off":        "condition \"services\" {\n names = [\"web\"]\n}\nbuffer_period {\n enabled = false\n}",
	} {
		t.Run(name, func(t *testing.T) {
			file := name + ".hcl"
			write(file, fmt.Sprintf("terraform_provider \"local\" {\n alias = \"a\"\n}\ntask {\n name = %q\n module = \"./mod\"\n %s\n}\n", name, strings.ReplaceAll(body, "\n", "\n ")))
			cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: file}}})
			if err != nil {
				t.Fatal(err)
			}
			write(file, fmt.Sprintf("task {\n name = %q\n module = \"./mod\"\n %s\n}\n", name, strings.ReplaceAll(body, "\n", "\n "))) // the server has the providers
			task, _, err := readTaskFile(file)
			if err != nil {
				t.Fatal(err)
			}
			definition, err := json.Marshal(task)
			if err != nil {
				t.Fatal(err)
			}
			alone := *cfg
			alone.Tasks = nil
			got, err := alone.Parse(definition)
			if err != nil {
				t.Fatalf("%s is refused: %v", definition, err)
			}
			want := cfg.Tasks[0]
			same := func(a, b cty.Value) bool { return a.RawEquals(b) }
			if diff := cmp.Diff(want, *got, cmp.Comparer(same), cmpopts.IgnoreUnexported(config.Task{}, drift.Spec{}),
				cmpopts.IgnoreFields(config.Task{}, "Source", "FromAPI", "VariableFiles"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("as sent the task is another one (-file +sent):\n%s\n%s", diff, definition)
			}
		})
	}
}

// The driver, its organization and its token are those of the instance.
func TestTaskFile_NamesItsWorkspaceInHCPTerraform(t *testing.T) {
	const workspace = "task {\n name = \"t\"\n module = \"./mod\"\n condition \"services\" {\n  names = [\"web\"]\n }\n" +
		" terraform_cloud_workspace {\n  execution_mode = \"agent\"\n  agent_pool_name = \"p\"\n  terraform_version = \"1.16.4\"\n }\n}\n"
	for name, text := range map[string]string{"alone": workspace, "with a driver": "driver \"terraform-cloud\" {}\n" + workspace} {
		task, _, err := readTaskFile(taskFile(t, "task.hcl", text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		definition, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		server := &config.Config{OtherDriver: &config.Cloud{}}
		got, err := server.Parse(definition)
		if err != nil {
			t.Fatalf("%s: %s is refused: %v", name, definition, err)
		}
		want := config.CloudWorkspace{ExecutionMode: "agent", AgentPoolName: "p", TerraformVersion: "1.16.4"}
		if got.Cloud != want {
			t.Errorf("%s: as sent: %+v", name, got.Cloud)
		}
	}
}

func TestTaskFile_DeprecatedKeysAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"source":              "task {\n name = \"a\"\n source = \"./m\"\n condition \"services\" {\n  names = [\"web\"]\n }\n}",
		"services":            "task {\n name = \"a\"\n module = \"./m\"\n services = [\"web\"]\n}",
		"source_input":        "task {\n name = \"a\"\n module = \"./m\"\n condition \"schedule\" {\n  cron = \"* * * * *\"\n }\n source_input \"services\" {\n  names = [\"web\"]\n }\n}",
		"source_includes_var": "task {\n name = \"a\"\n module = \"./m\"\n condition \"services\" {\n  names = [\"web\"]\n  source_includes_var = true\n }\n}",
		"service":             newTask + "service {\n name = \"web\"\n}",
	} {
		_, _, err := readTaskFile(taskFile(t, "task.hcl", text))
		if err == nil || !strings.Contains(err.Error(), "the '"+name+"' ") || !strings.Contains(err.Error(), " is no longer supported; use ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestTaskFile_WarnsOfKeysWithoutEffect(t *testing.T) {
	_, warnings, err := readTaskFile(taskFile(t, "task.hcl", strings.Replace(newTask, "module", "working_dir = \"elsewhere\"\n  module", 1)))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "working_dir has no effect") {
		t.Errorf("warnings are %q, %v", warnings, err)
	}
}
