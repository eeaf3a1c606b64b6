package rootmodule

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-version"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

type values = map[string]cty.Value

var (
	str = cty.StringVal
	num = cty.NumberIntVal
)

// full uses everything that a root module can hold.
func full() Module {
	cfg := &config.Config{
		Terraform: config.Terraform{
			Backend: config.Backend{Type: "consul", Body: config.Body{Attributes: values{
				"scheme": str("https"), "path": str("consul-terraform-sync/terraform"),
			}}},
			RequiredProviders: values{
				"testProvider": cty.ObjectVal(values{"version": str("1.2.0"), "source": str("namespace/testProvider")}),
				"unused":       str("1.0.0"),
			},
		},
		Providers: []config.Provider{{
			Name: "testProvider", Alias: "tp",
			Env: map[string]string{"TOKEN": "secret-in-env"},
			Body: config.Body{
				Attributes: values{"attr": str("secret-value"), "count": num(10)},
				Blocks: map[string][]config.Body{
					"obj": {{
						Attributes: values{"username": str("name"), "id": str("2")},
						Blocks: map[string][]config.Body{"inner": {{
							Blocks: map[string][]config.Body{"deep": {{Attributes: values{"a": str("${b}")}}}},
						}}},
					}},
					"rule": {
						{Attributes: values{"id": str("r0")}},
						{Attributes: values{"id": str("r1")}, Blocks: map[string][]config.Body{"sub": {
							{Attributes: values{"x": num(1)}}, {Attributes: values{"x": num(2)}},
						}}},
					},
				},
			},
		}, {
			Name: "stranger", Body: config.Body{Attributes: values{"password": str("secret-of-another-task")}},
		}},
	}
	task := &config.Task{
		Name: "test", Description: "user description for task named 'test'",
		Module: "namespace/consul-terraform-sync/consul//modules/test", Version: "0.0.0",
		Providers:    []string{"testProvider.tp", "other.west"},
		Condition:    config.Condition{Spec: condition.ConsulKV{Path: "key-path"}, UseAsModuleInput: true},
		ModuleInputs: []condition.Spec{condition.Services{{Names: []string{"api", "web"}}}},
		Variables: values{
			"bool_true": cty.True, "nothing": cty.NullVal(cty.DynamicPseudoType),
			"tup": cty.TupleVal([]cty.Value{str("abc"), num(123), cty.False}),
			"obj": cty.ObjectVal(values{
				"argList": cty.TupleVal([]cty.Value{str("a"), str("b")}),
				"argMap":  cty.EmptyObjectVal, "argNull": cty.NullVal(cty.DynamicPseudoType),
				"argNum": cty.NumberFloatVal(-0.52), "argStr": str("a ${b} \"c\"\n%{d"),
			}),
		},
	}
	none := map[string]string{}
	return Module{Config: cfg, Task: task, Blocks: []consul.Block{
		{Variable: kvVariable, Entries: condition.Pairs{
			{Key: "key-path", Value: "red"},
			{Key: `quo"te`, Value: "{\"a\": \"b\\\\c\"}\n${x} %{if}"},
		}},
		{Variable: servicesVariable, Entries: condition.Instances{{
			ID: "api", Name: "api", Address: "1.2.3.4", Port: 8080, Meta: none, Tags: []string{"tag"}, Status: "passing",
			Node: "worker-01", NodeID: "39e5a7f5-2834-e16d-6925-78167c9f50d8", NodeAddress: "127.0.0.1", NodeDatacenter: "dc1",
			NodeTaggedAddresses: map[string]string{"wan_ipv4": "127.0.0.1", "lan": "127.0.0.1"},
			NodeMeta:            map[string]string{"consul-network-segment": ""}, CTSUserDefinedMeta: none,
		}, {
			ID: "web", Name: "web", Address: "1.1.1.1", Port: 8000, Tags: []string{"tag_a", "tag_b"},
			Meta: map[string]string{"version": "1", "spaced key": "${x}"}, Namespace: "team", Status: "warning",
			Node: "worker-01", NodeAddress: "127.0.0.1", NodeDatacenter: "dc1",
			CTSUserDefinedMeta: map[string]string{"owner": "me"},
		}}},
	}}
}

const (
	servicesVariable = "services"
	catalogVariable  = "catalog_services"
	kvVariable       = "consul_kv"
)

// plain uses as little as possible.
func plainModule() Module {
	return Module{
		Config: &config.Config{Terraform: config.Terraform{Backend: config.Backend{Type: "local"}}},
		Task: &config.Task{Name: "test", Module: "./module", Condition: config.Condition{
			Spec: condition.CatalogServices{}, UseAsModuleInput: true}},
		Blocks: []consul.Block{{Variable: catalogVariable, Entries: condition.CatalogEntries{
			{Name: "api", Tags: []string{"tag"}}, {Name: "consul"},
			{Name: "web", Tags: []string{"tag_a", "tag\nb \"q\" ${x}"}},
		}}},
	}
}

func TestFiles_FitModulesWrittenForCTS(t *testing.T) {
	for name, m := range map[string]Module{"full": full(), "plain": plainModule()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := m.Write(dir); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(contents(t, filepath.Join("testdata", name)), contents(t, dir)); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiles_AreFormattedLikeTerraformFmt(t *testing.T) {
	// Not terraform.tfvars: lists of tags and keys are not aligned in CTS's format.
	for name, m := range map[string]Module{"full": full(), "plain": plainModule()} {
		dir := t.TempDir()
		if _, err := m.Write(dir); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{MainFile, VariablesFile, ModuleVariablesFile} {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			cmd := exec.Command(testtools.Terraform(t), "fmt", "-check", "-diff", path)
			cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: terraform fmt would change %s: %v\n%s", name, file, err, out)
			}
		}
	}
}

// terraform runs a command in a directory and returns its standard output.
func terraform(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testtools.Terraform(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("terraform %s: %v\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// TestFiles_StringsReachTerraformUnchanged writes what Consul and the person
// say, has a module give it back as it arrived, and compares.
func TestFiles_StringsReachTerraformUnchanged(t *testing.T) {
	nasty := "{\"a\": \"\\\"b\\\"\"}\n${x} %{if} $${y} $$$${ \\ \t\r é \u2028 'q' # //"
	dir := t.TempDir()
	module := filepath.Join(dir, "module")
	mustWrite(t, filepath.Join(module, "main.tf"), `
variable "services" {}
variable "consul_kv" {}
variable "secret" {}
variable "obj" {}
variable "null" {}
variable "list" {}
resource "terraform_data" "seen" {
  input = jsonencode({ services = var.services, kv = var.consul_kv, obj = var.obj, null = var.null, list = var.list })
}
output "seen" { value = terraform_data.seen.output }
`)
	m := full()
	m.Config.Terraform.Backend = config.Backend{Type: "local", Body: config.Body{Attributes: values{"path": str(nasty[:9] + ".tfstate")}}}
	m.Task.Providers = nil
	m.Task.Module, m.Task.Version = "./module", ""
	m.Task.Description = "two\nlines }\r\n\"three\""
	m.Task.Variables = values{
		"secret": str("x"), "null": cty.NullVal(cty.DynamicPseudoType),
		"obj":  cty.ObjectVal(values{"spaced key": str(nasty), "n": cty.NullVal(cty.String)}),
		"list": cty.TupleVal([]cty.Value{cty.ObjectVal(values{"a": num(1)}), cty.ObjectVal(values{"b": str(nasty)})}),
	}
	m.Blocks = []consul.Block{
		{Variable: kvVariable, Entries: condition.Pairs{{Key: nasty, Value: nasty}}},
		{Variable: servicesVariable, Entries: condition.Instances{{
			ID: nasty, Name: nasty, Tags: []string{nasty, "${"}, Meta: map[string]string{nasty: nasty, "a": "b"}, Node: "n",
		}}},
	}
	if _, err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	terraform(t, dir, "init", "-input=false")
	terraform(t, dir, "validate")
	// A root module of ours has no outputs: what the module saw is in the state.
	terraform(t, dir, "apply", "-auto-approve", "-input=false")
	var state struct {
		Values struct {
			Root struct {
				Children []struct {
					Resources []struct {
						Values struct{ Input string }
					}
				} `json:"child_modules"`
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(terraform(t, dir, "show", "-json")), &state); err != nil {
		t.Fatal(err)
	}
	var seen map[string]any
	if err := json.Unmarshal([]byte(state.Values.Root.Children[0].Resources[0].Values.Input), &seen); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"kv": map[string]any{nasty: nasty}, "null": nil,
		"obj":  map[string]any{"spaced key": nasty, "n": nil},
		"list": []any{map[string]any{"a": 1.0}, map[string]any{"b": nasty}},
		"services": map[string]any{nasty + ".n": map[string]any{
			"id": nasty, "name": nasty, "tags": []any{nasty, "${"}, "meta": map[string]any{nasty: nasty, "a": "b"},
			"kind": "", "address": "", "port": 0.0, "namespace": "", "status": "", "node": "n", "node_id": "", "node_address": "",
			"node_datacenter": "", "node_tagged_addresses": map[string]any{}, "node_meta": map[string]any{}, "cts_user_defined_meta": map[string]any{},
		}},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("Terraform saw something else (-want +got):\n%s", diff)
	}
}

func TestFiles_HoldNoSecrets(t *testing.T) {
	m := full()
	dir := t.TempDir()
	// What CTS left behind held them.
	mustWrite(t, filepath.Join(dir, ProvidersFile), "# This file is generated by Consul-Terraform-Sync.\ntestProvider = { attr = \"secret-value\" }\n")
	if err := os.Chmod(filepath.Join(dir, ProvidersFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range contents(t, dir) {
		if strings.Contains(text, "secret-") {
			t.Errorf("%s holds a secret:\n%s", name, text)
		}
	}
}

func TestSecretValues_HoldAllArgumentsOfTheTasksProviders(t *testing.T) {
	m := full()
	raw, err := SecretValues(m.Task, m.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"testProvider":{"alias":"tp","attr":"secret-value","count":10,` +
		`"obj":{"id":"2","inner":{"deep":{"a":"${b}"}},"username":"name"},` +
		`"rule":[{"id":"r0"},{"id":"r1","sub":[{"x":1},{"x":2}]}]}}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"TOKEN": "secret-in-env"}, Env(m.Task, m.Config)); diff != "" {
		t.Error(diff)
	}
	if raw, err := SecretValues(plainModule().Task, plainModule().Config, nil); raw != nil || err != nil {
		t.Errorf("a task without providers has values %s, %v", raw, err)
	}
}

func TestWrite_OnlyChangedFiles(t *testing.T) {
	m, dir := full(), filepath.Join(t.TempDir(), "work", "test")
	write := func(want ...string) {
		t.Helper()
		changed, err := m.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("changed files (-want +got):\n%s", diff)
		}
	}
	write(MainFile, VariablesFile, ProvidersFile, ModuleVariablesFile, ModuleValuesFile, ValuesFile)
	write()

	m.Blocks[0].Entries.(condition.Pairs)[0].Value = "blue"
	write(ValuesFile)
	m.Blocks[0].Entries = m.Blocks[0].Entries.(condition.Pairs)[:1] // shorter, and so a prefix up to there
	write(ValuesFile)

	mustWrite(t, filepath.Join(dir, MainFile), string(m.preamble())+"changed by hand")
	write(MainFile)

	m.Task.Variables = nil
	write(MainFile, ModuleVariablesFile, ModuleValuesFile)
	write()
	if entries, _ := filepath.Glob(filepath.Join(dir, ".*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A task's folder may be that of its module, by mistake.
func TestWrite_FilesOfTheUserStay(t *testing.T) {
	dir := t.TempDir()
	mine := map[string]string{VariablesFile: "variable \"services\" {}\n"}
	mustWrite(t, filepath.Join(dir, VariablesFile), mine[VariablesFile])
	m := full()
	if _, err := m.Write(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, VariablesFile)) || !strings.Contains(err.Error(), "working_dir") {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(mine, contents(t, dir)); diff != "" {
		t.Errorf("the folder has changed:\n%s", diff)
	}

	dir, m.Task.Variables = t.TempDir(), nil
	mustWrite(t, filepath.Join(dir, ModuleValuesFile), "size = 3\n")
	if _, err := m.Write(dir); err != nil || contents(t, dir)[ModuleValuesFile] != "size = 3\n" {
		t.Errorf("a variable file of the user is gone: %v", err)
	}
}

func TestWrite_FilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "test")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, ValuesFile), "")
	if err := os.Chmod(filepath.Join(dir, ValuesFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := full().Write(dir); err != nil {
		t.Fatal(err)
	}
	for name := range contents(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestFiles_OldTerraformGetsNoSensitiveVariables(t *testing.T) {
	m := full()
	for v, want := range map[string]bool{"0.13.7": false, "0.14.0": true, "1.15.0-rc1": true} {
		m.Terraform = version.Must(version.NewVersion(v))
		text, err := m.variables()
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(text, []byte("sensitive")); got != want {
			t.Errorf("Terraform %s: sensitive is written: %v", v, got)
		}
	}
}

func TestInputs_AreWhatTheTaskRenders(t *testing.T) {
	kv := condition.ConsulKV{}
	services := condition.Services{}
	for _, c := range []struct {
		name string
		task config.Task
		want []string
	}{
		{"no condition", config.Task{}, []string{"services"}},
		{"services, KV as input", config.Task{Condition: config.Condition{Spec: condition.Services{}, UseAsModuleInput: true},
			ModuleInputs: []condition.Spec{kv}}, []string{"services", "consul_kv"}},
		{"catalog, both inputs", config.Task{Condition: config.Condition{Spec: condition.CatalogServices{}, UseAsModuleInput: true},
			ModuleInputs: []condition.Spec{services, kv}}, []string{"services", "catalog_services", "consul_kv"}},
		{"catalog not used", config.Task{Condition: config.Condition{Spec: condition.CatalogServices{}}}, []string{"services"}},
		{"schedule", config.Task{Condition: config.Condition{Spec: condition.Schedule{}, UseAsModuleInput: true},
			ModuleInputs: []condition.Spec{kv}}, []string{"services", "consul_kv"}},
	} {
		if diff := cmp.Diff(c.want, Inputs(&c.task)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestFiles_InvalidNamesAreErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Module)
		want   string
	}{
		{func(m *Module) { m.Config.Providers[0].Body.Attributes["a b"] = str("") }, `provider "testProvider": "a b"`},
		{func(m *Module) { m.Config.Terraform.Backend.Body.Attributes["a\n}"] = str("") }, `backend "consul": "a\n}"`},
		{func(m *Module) { m.Task.Variables["1x"] = str("") }, `variables of task test: "1x"`},
		{func(m *Module) { m.Task.Providers = []string{"a }"} }, `provider: "a }"`},
		{func(m *Module) { m.Config.Providers[0].Body.Attributes["obj"] = str("") }, `both an argument and a block`},
	} {
		m := full()
		c.change(&m)
		if _, err := m.Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %s", err, c.want)
		}
	}
}

func TestWrite_DiskErrorNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, MainFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := full().Write(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, MainFile)) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}
