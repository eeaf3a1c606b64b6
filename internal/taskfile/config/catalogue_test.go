package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config/yamlplace"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

func init() { FindYAMLError = yamlplace.Find }

// mistakes reads one file that must be wrong, and returns what is said.
func mistakes(t *testing.T, name, content string) string {
	t.Helper()
	return mistakesIn(t, options(write(t, name, content), name))
}

func mistakesIn(t *testing.T, o Options) string {
	t.Helper()
	_, err := Load(o)
	if err == nil {
		t.Fatal("accepted")
	}
	var list Errors
	if !errors.As(err, &list) {
		t.Fatalf("not a configuration error: %v", err)
	}
	return err.Error()
}

// aTask is a task that is right, with something added inside.
func aTask(inside string) string {
	return "task {\n  name = \"t\"\n  module = \"./m\"\n" + inside + "\n}\n"
}

// services is a condition that is right.
const services = `condition "services" { names = ["web"] }`

const identifiers = "a name starts with a letter or underscore and has only letters, digits, underscores and dashes"

func TestLoad_LicenseIsAWarning(t *testing.T) {
	cfg := load(t, "f.hcl", "license_path = \"x\"\nlicense {}\n"+aTask(services))
	var said []string
	for _, w := range cfg.Warnings {
		said = append(said, w.String())
	}
	want := []string{
		"f.hcl:1: license_path: license_path has no effect: nothing here needs a license; remove it",
		"f.hcl:2: license: license has no effect: nothing here needs one; remove it",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
}

// aCluster is the block with which the store is in Consul.
const aCluster = "high_availability {\n cluster {\n  name = \"a\"\n }\n}\n"

// The catalogue of what Consul-Terraform-Sync refuses, and of the nonsense that
// it accepts.
var catalogue = []struct {
	name string
	file string // the HCL
	want string // all that is said
}{
	{"an unknown key at the top", `bogus = 1`,
		`f.hcl:1: bogus: invalid key "bogus"; allowed: api, approval, approval_expires, approve_destroy, audit_retention, buffer_period, check, consul, drift, driver, guard, high_availability, id, keep_removed, log_level, nomad, notify, on_removal, port, require_distinct_approver, run_timeout, syslog, task, terraform_provider, tls, vault, verify, window, working_dir`},
	{"a provider block of Terraform", `provider "x" {}`,
		`f.hcl:1: provider: provider is an invalid key here, try 'terraform_provider'`},
	{"high_availability without the cluster's name", `high_availability {}`,
		`f.hcl:1: high_availability.cluster.name: name is required for a high availability cluster; the same for all instances of the cluster`},
	{"a cluster's name with a slash", "high_availability {\n cluster {\n  name = \"a/b\"\n }\n}",
		`f.hcl:3: high_availability.cluster.name: not the name of a cluster: "a/b"; it is one part of a path in Consul's KV: no slash, and neither . nor ..`},
	{"a storage that is not Consul", "high_availability {\n cluster {\n  name = \"a\"\n  storage \"etcd\" {}\n }\n}",
		`f.hcl:4: high_availability.cluster.storage.etcd: unsupported storage type "etcd"; allowed: consul`},
	{"a storage without type", "high_availability {\n cluster {\n  name = \"a\"\n  storage {}\n }\n}",
		`f.hcl:4: high_availability.cluster.storage: the storage has no type; write consul after storage, as in storage "consul" { ... }`},
	{"a session_ttl that is too short", "high_availability {\n cluster {\n  name = \"a\"\n  storage \"consul\" { session_ttl = \"9s\" }\n }\n}",
		`f.hcl:4: high_availability.cluster.storage.consul.session_ttl: session_ttl "9s" is out of range; allowed: 10s to 24h`},
	{"a session_ttl that is too long", "high_availability {\n cluster {\n  name = \"a\"\n  storage \"consul\" { session_ttl = \"25h\" }\n }\n}",
		`f.hcl:4: high_availability.cluster.storage.consul.session_ttl: session_ttl "25h" is out of range; allowed: 10s to 24h`},
	{"nomad without a shared store", "nomad {\n job = \"runner\"\n}",
		`f.hcl:1: nomad: nomad needs high_availability: a job on another machine cannot use a store that is a file on this one; add a high_availability block, with which the store is in Consul's KV`},
	{"nomad without a job", aCluster + "nomad {}",
		`f.hcl:6: nomad.job: job is required; the id of a parameterized job, as in examples/nomad/runner.nomad.hcl`},
	{"nomad without launches", aCluster + "nomad {\n job = \"runner\"\n max_launches = 0\n}",
		`f.hcl:8: nomad.max_launches: max_launches "0" is too small; a number from 1 on`},
	{"nomad at no address", aCluster + "nomad {\n job = \"runner\"\n address = \"nomad/v1\"\n}",
		`f.hcl:8: nomad.address: not the address of a Nomad agent: "nomad/v1"; such as "https://nomad.example.com:4646", or "unix:///secrets/api.sock"`},
	{"nomad with HCP Terraform", aCluster + "nomad {\n job = \"runner\"\n}\ndriver \"terraform-cloud\" {\n organization = \"o\"\n token = \"t\"\n}",
		`f.hcl:6: nomad: nomad has no use beside driver "terraform-cloud", whose runs need no process; remove one of them`},
	{"a syslog facility", `syslog { facility = "LOCAL8" }`,
		`f.hcl:1: syslog.facility: invalid facility "LOCAL8"; allowed: KERN, USER, MAIL, DAEMON, AUTH, SYSLOG, LPR, NEWS, UUCP, CRON, AUTHPRIV, FTP, LOCAL0, LOCAL1, LOCAL2, LOCAL3, LOCAL4, LOCAL5, LOCAL6, LOCAL7`},
	{"an engine", `driver "terraform" { engine = "pulumi" }`,
		`f.hcl:1: driver.terraform.engine: invalid engine "pulumi"; allowed: terraform, tofu`},
	{"an OpenTofu version that there never was", "driver \"terraform\" {\n engine = \"tofu\"\n version = \"1.5.0\"\n}",
		`f.hcl:3: driver.terraform.version: OpenTofu version is not supported: "1.5.0"; >= 1.6.0`},
	{"an OpenTofu version of two parts", "driver \"terraform\" {\n engine = \"tofu\"\n version = \"1.10\"\n}",
		`f.hcl:3: driver.terraform.version: provide the exact OpenTofu version to install: "1.10"; three numbers, such as "1.16.4"`},
	{"a template that does not end", `terraform_provider "a" { token = "{{ if true }}{{ env \"X\" }}" }`,
		`f.hcl:1: terraform_provider.a.token: the template cannot be parsed; the syntax is that of Go's text/template, such as {{ env "NAME" }}; every "with", "if" and "range" needs an {{ end }}`},
	{"a Vault template in task_env", `terraform_provider "a" { task_env { "X" = "{{- with secret \"p\" -}}{{ .Data.x }}{{ end }}" } }`,
		`f.hcl:1: terraform_provider.a.task_env.X: detected dynamic configuration using Vault: missing Vault configuration; add a vault block with an address`},
	{"a new template outside of a provider", aTask(services + "\ndescription = \"{{ secretsmanager \\\"arn\\\" }}\""),
		`f.hcl:5: task[0].description: dynamic configuration using template syntax is only supported for terraform_provider blocks and variables of task files; write the value itself, or set it by an environment variable`},
	{"another new template outside of a provider", `consul { token = "{{- ssm \"x\" -}}" }`,
		`f.hcl:1: consul.token: dynamic configuration using template syntax is only supported for terraform_provider blocks and variables of task files; write the value itself, or set it by an environment variable`},
	{"two consul blocks", "consul {}\nconsul {}",
		`f.hcl:2: consul: only one 'consul' block can be configured; join the blocks`},
	{"two driver blocks", "driver \"terraform\" {}\ndriver \"terraform\" {}",
		`f.hcl:2: driver: only one 'driver' block can be configured; join the blocks`},
	{"a task without name", "task {\n module = \"./m\"\n " + services + "\n}",
		`f.hcl:1: task[0].name: unique name for the task is required; ` + identifiers},
	{"a bad task name", "task {\n name = \"0bad name\"\n module = \"./m\"\n " + services + "\n}",
		`f.hcl:2: task[0].name: a task name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes: "0bad name"`},
	{"a task without module", "task {\n name = \"t\"\n " + services + "\n}",
		`f.hcl:1: task[0].module: module for the task is required; a directory such as "./my-module", or the address of a Terraform module`},
	{"two tasks of one name", aTask(services) + aTask(services),
		`f.hcl:7: task[1].name: duplicate task name: "t" (f.hcl:1) exists already; give each task a name of its own`},
	{"a task that is moved from one that is there", aTask(services+"\nmoved_from = \"u\"") + strings.Replace(aTask(services), `"t"`, `"u"`, 1),
		`f.hcl:5: task[0].moved_from: moved_from names the task "u", which is in the configuration; remove moved_from, or the task of that name`},
	{"two tasks that are moved from the same one", aTask(services+"\nmoved_from = \"old\"") + strings.Replace(aTask(services+"\nmoved_from = \"old\""), `"t"`, `"u"`, 1),
		`f.hcl:11: task[1].moved_from: the tasks "t" and "u" are both moved from "old"; only one of them can have its state`},
	{"a role that is no ARN of one", aTask(services + "\naws_role = \"arn:aws:iam::123456789012:user/ann\""),
		`f.hcl:5: task[0].aws_role: aws_role is not the ARN of an IAM role: "arn:aws:iam::123456789012:user/ann"; such as arn:aws:iam::123456789012:role/load-balancer`},
	{"a key of a label with a space", aTask(services + "\nlabels = { \"the site\" = \"muc\" }"),
		`f.hcl:5: task[0].labels.the site: not a key of a label: "the site"; use 1 to 63 letters (a-z), digits, '.', '_' and '-', the first of them a letter or a digit`},
	{"a value of a label with a comma", aTask(services + "\nlabels = {\n  tier = \"edge\"\n  site = \"muc,ber\"\n}"),
		`f.hcl:7: task[0].labels.site: not a value of the label site: "muc,ber"; use 1 to 63 letters (a-z), digits, '.', '_' and '-', the first of them a letter or a digit`},
	{"an empty value of a label", aTask(services + "\nlabels = { site = \"\" }"),
		`f.hcl:5: task[0].labels.site: not a value of the label site: ""; use 1 to 63 letters (a-z), digits, '.', '_' and '-', the first of them a letter or a digit`},
	{"a task that is moved from what is no name", aTask(services + "\nmoved_from = \"0 bad\""),
		`f.hcl:5: task[0].moved_from: moved_from is not the name of a task: "0 bad"; the name that the task had before`},
	{"a task that comes after what is no name", aTask(services + "\nafter = [\"fw-*\", \"0 bad\"]"),
		`f.hcl:5: task[0].after[1]: after has neither the name of a task nor a pattern: "0 bad"; * is any text, and ? is any character`},
	{"a task that comes after itself", aTask(services + "\nafter = \"t\""),
		`f.hcl:5: task[0].after: task "t" cannot come after itself`},
	{"two tasks that come after each other", aTask(services+"\nafter = [\"u\"]") + strings.Replace(aTask(services+"\nafter = [\"t\"]"), `"t"`, `"u"`, 1),
		`f.hcl:5: task[0].after[0]: no task of a cycle could run: t comes after u, u comes after t; remove one of them from after`},
	{"a wait of less than no time for other tasks", aTask(services + "\nafter = \"u\"\nafter_timeout = \"-1s\""),
		`f.hcl:6: task[0].after_timeout: "-1s" is negative; a duration such as "30m", or "0s" for no limit`},
	{"a task of whose former names one is no name", aTask(services + "\nmoved_from = [\"old\", \"0 bad\"]"),
		`f.hcl:5: task[0].moved_from[1]: moved_from is not the name of a task: "0 bad"; the name that the task had before`},
	{"two tasks that share a former name", aTask(services+"\nmoved_from = [\"b\", \"a\"]") + strings.Replace(aTask(services+"\nmoved_from = \"a\""), `"t"`, `"u"`, 1),
		`f.hcl:11: task[1].moved_from: the tasks "t" and "u" are both moved from "a"; only one of them can have its state`},
	{"two tasks whose names differ only in case", aTask(services) + strings.Replace(aTask(services), `"t"`, `"T"`, 1),
		`f.hcl:7: task[1].name: the task names "T" and "t" (f.hcl:1) differ only in case: on macOS and Windows the two tasks would share a folder; rename one of them`},
	{"two tasks whose names differ only in how Unicode writes them", strings.Replace(aTask(services), `"t"`, "\"caf\u00e9\"", 1) + strings.Replace(aTask(services), `"t"`, "\"cafe\u0301\"", 1),
		"f.hcl:7: task[1].name: the task names \"cafe\u0301\" and \"caf\u00e9\" (f.hcl:1) differ only in case: on macOS and Windows the two tasks would share a folder; rename one of them"},
	{"a working directory of two tasks", aTask(services+"\nworking_dir = \"d/x\"") + strings.Replace(aTask(services+"\nworking_dir = \"./d/x/\""), `"t"`, `"u"`, 1),
		`f.hcl:11: task[1].working_dir: "./d/x/" is the working directory of task "t" already; give each task a working_dir of its own`},
	{"a working directory that is another task's by default", aTask(services+"\nworking_dir = \"sync-tasks/u\"") + strings.Replace(aTask(services), `"t"`, `"u"`, 1),
		`f.hcl:8: task[1].name: "sync-tasks/u" is the working directory of task "t" already; give each task a working_dir of its own`},
	{"an unknown condition", aTask(`condition "intentions" {}`),
		`f.hcl:4: task[0].condition.intentions: unsupported condition type "intentions"; allowed: ` + strings.Join(schemaOf(reflect.TypeFor[rawCondition]()).names(), ", ")},
	{"an unknown key in a condition", aTask("condition \"services\" {\n names = [\"web\"]\n bogus = 1\n}"),
		`f.hcl:6: task[0].condition.services.bogus: invalid key "bogus"; allowed: cts_user_defined_meta, datacenter, filter, names, namespace, peer, regexp, use_as_module_input`},
	{"names and regexp", aTask("condition \"services\" {\n names = [\"web\"]\n regexp = \".*\"\n}"),
		`f.hcl:6: task[0].condition.services.regexp: condition "services": regexp and names fields cannot both be configured: ".*" and "web"; make the names part of the regexp, or make two tasks`},
	{"neither names nor regexp", aTask(`condition "services" {}`),
		`f.hcl:4: task[0].condition.services: condition "services": either the regexp or names field must be configured; such as names = ["web"] or regexp = "^web"`},
	{"an empty service name", aTask(`condition "services" { names = [""] }`),
		`f.hcl:4: task[0].condition.services.names[0]: condition "services": names field includes empty string(s). services names cannot be empty; remove it`},
	{"a bad regexp of services", aTask(`condition "services" { regexp = "*" }`),
		"f.hcl:4: task[0].condition.services.regexp: condition \"services\": unable to compile services regexp \"*\": error parsing regexp: missing argument to repetition operator: `*`; the syntax is https://golang.org/s/re2syntax"},
	{"catalog-services without regexp", aTask(`condition "catalog-services" {}`),
		`f.hcl:4: task[0].condition.catalog-services.regexp: catalog-services 'regexp' field must be set; ".*" is every service`},
	{"a bad regexp of catalog-services", aTask(`condition "catalog-services" { regexp = "*" }`),
		"f.hcl:4: task[0].condition.catalog-services.regexp: unable to compile catalog-services 'regexp' \"*\": error parsing regexp: missing argument to repetition operator: `*`; the syntax is https://golang.org/s/re2syntax"},
	{"consul-kv without path", aTask(`condition "consul-kv" {}`),
		`f.hcl:4: task[0].condition.consul-kv.path: path is required for consul-kv condition; the key, such as "config/web"`},
	{"config-entries without kind", aTask(`condition "config-entries" {}`),
		`f.hcl:4: task[0].condition.config-entries.kind: kind is required for config-entries condition; such as "service-intentions"`},
	{"a kind of config entries that cannot be", aTask(`condition "config-entries" { kind = "Service Intentions" }`),
		`f.hcl:4: task[0].condition.config-entries.kind: condition "config-entries": "Service Intentions" is not a kind of config entries; such as "service-intentions"`},
	{"config-entries with name and regexp", aTask("condition \"config-entries\" {\n kind = \"mesh\"\n name = \"mesh\"\n regexp = \"^m\"\n}"),
		`f.hcl:7: task[0].condition.config-entries.regexp: condition "config-entries": name and regexp cannot both be configured; remove one of them; without both, every entry of the kind is selected`},
	{"config-entries of every namespace", aTask("condition \"config-entries\" {\n kind = \"service-defaults\"\n namespace = \"*\"\n}"),
		`f.hcl:6: task[0].condition.config-entries.namespace: condition "config-entries": config entries are read from one namespace; make a task for each namespace`},
	{"a bad regexp of config-entries", aTask(services + "\nmodule_input \"config-entries\" {\n kind = \"mesh\"\n regexp = \"*\"\n}"),
		"f.hcl:7: task[0].module_input[0].config-entries.regexp: module_input \"config-entries\": unable to compile regexp \"*\": error parsing regexp: missing argument to repetition operator: `*`; the syntax is https://golang.org/s/re2syntax"},
	{"a peer that cannot be", aTask("condition \"services\" {\n names = [\"web\"]\n peer = \"a/b\"\n}"),
		"f.hcl:6: task[0].condition.services.peer: condition \"services\": \"a/b\" is not the name of a peer; `consul peering list` shows the names"},
	{"a peer of another datacenter", aTask("condition \"catalog-services\" {\n regexp = \"\"\n datacenter = \"dc2\"\n peer = \"p\"\n}"),
		`f.hcl:7: task[0].condition.catalog-services.peer: condition "catalog-services": peer and datacenter cannot both be configured; remove datacenter: peerings are those of the agent's datacenter`},
	{"nodes with a status that does not exist", aTask("condition \"nodes\" {\n status = [\"passing\", \"down\"]\n}"),
		`f.hcl:5: task[0].condition.nodes.status[1]: condition "nodes": "down" is not a status; the statuses are passing, warning, critical, maintenance`},
	{"nodes by their health, which is left out", aTask(services + "\nmodule_input \"nodes\" {\n status = [\"passing\"]\n health = false\n}"),
		`f.hcl:6: task[0].module_input[0].nodes.status: module_input "nodes": status needs the health of nodes, which health = false leaves out; remove one of them`},
	{"nodes with a bad filter", aTask("condition \"nodes\" {\n filter = \"Node ==\"\n}"),
		`f.hcl:5: task[0].condition.nodes.filter: invalid filter "Node ==": 1:8 (7): no match found, expected: "-", "0", "\"", "` + "`" + `", [ \t\r\n], [1-9] or [a-zA-Z]; the syntax is https://developer.hashicorp.com/consul/api-docs/features/filtering`},
	{"resources without kind", aTask("condition \"resources\" {\n group = \"demo\"\n version = \"v2\"\n}"),
		`f.hcl:4: task[0].condition.resources.kind: kind is required for resources condition; such as "exportedservices"`},
	{"a group of resources that cannot be", aTask("condition \"resources\" {\n group = \"a/b\"\n version = \"v2\"\n kind = \"artist\"\n}"),
		`f.hcl:5: task[0].condition.resources.group: condition "resources": "a/b" is not a valid group; such as "multicluster"`},
	{"resources of every namespace", aTask("condition \"resources\" {\n group = \"demo\"\n version = \"v2\"\n kind = \"artist\"\n namespace = \"*\"\n}"),
		`f.hcl:8: task[0].condition.resources.namespace: condition "resources": resources are read from one namespace; make a task for each namespace`},
	{"resources polled too often", aTask(services + "\nmodule_input \"resources\" {\n group = \"demo\"\n version = \"v2\"\n kind = \"artist\"\n interval = \"1s\"\n}"),
		`f.hcl:9: task[0].module_input[0].resources.interval: module_input "resources": interval must be from 5s to 5m; everything is read every 5 minutes in any case`},
	{"schedule without cron", aTask(`condition "schedule" {}`),
		`f.hcl:4: task[0].condition.schedule.cron: cron config is required for schedule condition; such as "*/10 * * * *"; for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr`},
	{"a bad cron", aTask(`condition "schedule" { cron = "invalid" }`),
		`f.hcl:4: task[0].condition.schedule.cron: unable to parse schedule condition's cron config "invalid": missing field(s); for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr`},
	{"a cron that never comes due", aTask(`condition "schedule" { cron = "0 0 30 2 *" }`),
		`f.hcl:4: task[0].condition.schedule.cron: the schedule "0 0 30 2 *" never comes due; no date matches it`},
	{"a cron that wraps around the end of the day", aTask(`condition "schedule" { cron = "0 22-6 * * *" }`),
		`f.hcl:4: task[0].condition.schedule.cron: the schedule "0 22-6 * * *" has a range that goes backwards: "22-6"; write it as two, such as 22-23,0-6 for 22-6`},
	{"a cron that wraps around the end of the year", aTask(`condition "schedule" { cron = "0 0 * NOV-FEB *" }`),
		`f.hcl:4: task[0].condition.schedule.cron: the schedule "0 0 * NOV-FEB *" has a range that goes backwards: "nov-feb"; write it as two, such as 22-23,0-6 for 22-6`},
	{"two condition blocks", aTask(services + "\n" + `condition "consul-kv" { path = "x" }`),
		`f.hcl:5: task[0].condition: only one 'condition' block can be configured; join the blocks`},
	{"two module inputs of services", aTask(`condition "consul-kv" { path = "x" }
  module_input "services" { names = ["a"] }
  module_input "services" { names = ["b"] }`),
		`f.hcl:6: task[0].module_input[1]: more than one 'module_input' block for the "services" variable; variable types must be unique: join the blocks`},
	{"two module inputs of KV, beside a services list", aTask(`services = ["a"]
  module_input "consul-kv" { path = "a" }
  module_input "consul-kv" { path = "b" }`),
		`f.hcl:6: task[0].module_input[1]: more than one 'module_input' block for the "consul_kv" variable; variable types must be unique: join the blocks`},
	{"a module input of what the condition renders", aTask(services + "\nmodule_input \"services\" { names = [\"a\"] }"),
		`f.hcl:5: task[0].module_input[0]: task's condition block and module_input block both monitor "services" variable type; condition and module_input variable type must be unique: remove the module_input`},
	{"the same of KV", aTask("condition \"consul-kv\" { path = \"x\" }\nmodule_input \"consul-kv\" { path = \"y\" }"),
		`f.hcl:5: task[0].module_input[0]: task's condition block and module_input block both monitor "consul_kv" variable type; condition and module_input variable type must be unique: remove the module_input`},
	{"services list and module_input services", aTask("services = [\"a\"]\nmodule_input \"services\" { names = [\"b\"] }"),
		"f.hcl:4: task[0].services: task's `services` field and `module_input 'services'` block both monitor \"services\" variable type. only one of these can be configured per task; remove services"},
	{"services list and condition services", aTask("services = [\"a\"]\n" + services),
		"f.hcl:4: task[0].services: task's `services` field and `condition 'services'` block both monitor \"services\" variable type. only one of these can be configured per task; remove services"},
	{"module_input catalog-services", aTask(services + "\nmodule_input \"catalog-services\" { regexp = \".*\" }"),
		`f.hcl:5: task[0].module_input[0].catalog-services: unsupported module_input type "catalog-services"; allowed: ` + strings.Join(schemaOf(reflect.TypeFor[rawModuleInput]()).names(), ", ")},
	{"use_as_module_input in a module input", aTask(services + "\nmodule_input \"consul-kv\" {\n path = \"x\"\n use_as_module_input = true\n}"),
		`f.hcl:7: task[0].module_input[0].consul-kv.use_as_module_input: invalid key "use_as_module_input"; allowed: datacenter, namespace, path, recurse`},
	{"an empty module_input services", aTask(`module_input "services" {}`),
		`f.hcl:4: task[0].module_input[0].services: module_input "services": either the regexp or names field must be configured; such as names = ["web"] or regexp = "^web"`},
	{"an empty module_input consul-kv", aTask(`module_input "consul-kv" {}`),
		`f.hcl:4: task[0].module_input[0].consul-kv.path: path is required for consul-kv module_input; the key, such as "config/web"`},
	{"a module_input without type", aTask(`module_input {}`),
		`f.hcl:4: task[0].module_input[0]: the module_input is empty; write ` + kindNames(true) + ` after module_input, as in module_input "services" { ... }`},
	{"a condition without type", aTask(`condition {}`),
		`f.hcl:4: task[0].condition: the condition has no type; write one of ` + kindNames(false) + ` after condition, as in condition "services" { ... }`},
	{"terraform_version with the other driver", aTask(services + "\nterraform_version = \"1.0.0\""),
		`f.hcl:5: task[0].terraform_version: unsupported configuration 'terraform_version' for task "t"; it needs driver "terraform-cloud"; set version in driver "terraform"`},
	{"terraform_cloud_workspace with the other driver", aTask(services + "\nterraform_cloud_workspace { terraform_version = \"1.16.4\" }"),
		`f.hcl:5: task[0].terraform_cloud_workspace: unsupported configuration 'terraform_cloud_workspace' for task "t"; it needs driver "terraform-cloud"; remove it, or configure that driver`},
	{"a provider that has no name", aTask(services + "\nproviders = [\"a b\"]"),
		`f.hcl:5: task[0].providers[0]: not a provider: "a b"; a name such as "aws", or a name and an alias such as "aws.west"`},
	{"an alias that is no name", aTask(services + "\nproviders = [\"a.0\"]"),
		`f.hcl:5: task[0].providers[0]: not a provider: "a.0"; a name such as "aws", or a name and an alias such as "aws.west"`},
	{"a token that is too short", "api {\n token = \"abc\"\n}",
		"f.hcl:2: api.token: the token has 3 characters, but needs at least 16; create one with `openssl rand -hex 32`"},
	{"one token to read and to act", "api {\n token = \"0123456789abcdef\"\n read_token = \"0123456789abcdef\"\n}",
		"f.hcl:3: api.read_token: read_token is the same as token: readers could change things; use another one"},
	{"a services list with an empty name", aTask("services = [\"a\", \"\"]"),
		`f.hcl:4: task[0].services[1]: a service's name is empty`},
	{"two instances of a provider in one task", aTask(services + "\nproviders = [\"a\", \"a.y\"]"),
		`f.hcl:5: task[0].providers[1]: only one provider instance per task, and "a" is already listed; make a task for each`},
	{"two providers of one id", "terraform_provider \"a\" {}\nterraform_provider \"a\" {}",
		`f.hcl:2: terraform_provider.a: duplicate provider configuration: a is already configured at f.hcl:1; remove one, or give it an alias of its own`},
	{"an auto_commit provider in two tasks", "terraform_provider \"a\" { auto_commit = true }\n" + aTask(services+"\nproviders = [\"a\"]") +
		strings.Replace(aTask(services+"\nproviders = [\"a\"]"), `"t"`, `"u"`, 1),
		`f.hcl:12: task[1].providers: provider with autocommit (a) cannot be used by more than one task, and task "t" uses it; configure another instance with an alias`},
	{"task_env that is no map", `terraform_provider "a" { task_env = "x" }`,
		`f.hcl:1: terraform_provider.a.task_env: unexpected task_env block format: task_env should be a map of strings; such as task_env { "NAME" = "value" }`},
	{"a number in task_env", `terraform_provider "a" { task_env { "X" = 1 } }`,
		`f.hcl:1: terraform_provider.a.task_env.X: unexpected task_env block format: value for "X" should be a string; put it in quotes`},
	{"a Terraform version of two parts", `driver "terraform" { version = "1.0" }`,
		`f.hcl:1: driver.terraform.version: provide the exact Terraform version to install: "1.0"; three numbers, such as "1.16.4"`},
	{"a Terraform version that is too old", `driver "terraform" { version = "0.12.31" }`,
		`f.hcl:1: driver.terraform.version: Terraform version is not supported: "0.12.31"; >= 0.13.0`},
	{"a Terraform version that is none", `driver "terraform" { version = "abc" }`,
		`f.hcl:1: driver.terraform.version: malformed version: "abc"; an exact version such as "1.16.4"`},
	{"backend etcd", `driver "terraform" { backend "etcd" {} }`,
		`f.hcl:1: driver.terraform.backend.etcd: unsupported Terraform backend "etcd"; allowed: azurerm, cloud, consul, cos, gcs, http, kubernetes, local, manta, oci, oss, pg, remote, s3`},
	{"two backends", "driver \"terraform\" {\n backend \"local\" {}\n backend \"s3\" {}\n}",
		`f.hcl:3: driver.terraform.backend.s3: only one backend can be configured, and backend "local" is already (f.hcl:2); remove one of them`},
	{"one backend twice", "driver \"terraform\" {\n backend \"s3\" {}\n backend \"s3\" {}\n}",
		`f.hcl:3: driver.terraform.backend.s3: only one 'backend' block can be configured in a file; join the blocks`},
	{"a negative buffer period", `buffer_period { min = "-5s" }`,
		`f.hcl:1: buffer_period.min: buffer_period: cannot be negative: "-5s"; a duration such as "5s"`},
	{"a negative buffer period of a task", aTask(services + "\nbuffer_period { max = \"-5s\" }"),
		`f.hcl:5: task[0].buffer_period.max: buffer_period: cannot be negative: "-5s"; a duration such as "5s"`},
	{"a negative run_timeout", `run_timeout = "-5s"`,
		`f.hcl:1: run_timeout: "-5s" is negative; a duration such as "30m", or "0s" for no limit`},
	{"a negative keep_removed", `keep_removed = "-5s"`,
		`f.hcl:1: keep_removed: "-5s" is negative; a duration such as "720h", or "0s" to remove the records at once`},
	{"a negative run_timeout of a task", aTask(services + "\nrun_timeout = \"-5s\""),
		`f.hcl:5: task[0].run_timeout: "-5s" is negative; a duration such as "30m", or "0s" for no limit`},
	{"a percentage above 100", `guard { max_removed_percent = 101 }`,
		`f.hcl:1: guard.max_removed_percent: "101" percent is out of range; allowed: 0 to 100`},
	{"a negative percentage of a task", aTask(services + "\nguard { max_destroy_percent = -1 }"),
		`f.hcl:5: task[0].guard.max_destroy_percent: "-1" percent is out of range; allowed: 0 to 100`},
	{"negative limits", aTask(services + "\nguard {\n max_removed = -1\n min_entries = -2\n max_destroy = -3\n}"),
		`f.hcl:6: task[0].guard.max_removed: "-1" is negative; a whole number, 0 or more
f.hcl:7: task[0].guard.min_entries: "-2" is negative; a whole number, 0 or more
f.hcl:8: task[0].guard.max_destroy: "-3" is negative; a whole number, 0 or more`},
	{"a negative window of a guard", `guard { within = "-15m" }`,
		`f.hcl:1: guard.within: "-15m" is negative; a duration such as "15m", or "0s" to compare only with what was applied last`},
	{"on_empty with another value", `guard { on_empty = "stop" }`,
		`f.hcl:1: guard.on_empty: invalid on_empty "stop"; allowed: apply, hold`},
	{"approval with another value", aTask(services + "\napproval = \"sometimes\""),
		`f.hcl:5: task[0].approval: invalid approval "sometimes"; allowed: never, always, destructive`},
	{"on_removal with another value", aTask(services + "\non_removal = \"forget\""),
		`f.hcl:5: task[0].on_removal: invalid on_removal "forget"; allowed: keep, destroy`},
	{"approval with a key that is none", aTask(services + "\napproval {\n requires = 2\n}"),
		`f.hcl:6: task[0].approval.requires: invalid key "requires"; did you mean "require"?`},
	{"approve_destroy with another value", `approve_destroy = "destructive"`,
		`f.hcl:1: approve_destroy: invalid approve_destroy "destructive"; allowed: always, never`},
	{"a negative approval_expires", `approval_expires = "-5s"`,
		`f.hcl:1: approval_expires: "-5s" is negative; a duration such as "8h", or "0s" for no limit`},
	{"a drift block with wrong values", aTask(services + "\ndrift {\n every = \"10s\"\n schedule = \"0 25 * * *\"\n action = \"fix\"\n time_zone = \"Europe/Bonn\"\n}"),
		`f.hcl:6: task[0].drift.every: the interval "10s" is too short; at least 1m
f.hcl:7: task[0].drift.schedule: schedule and every exclude each other; remove one of them
f.hcl:7: task[0].drift.schedule: unable to parse the schedule "0 25 * * *": syntax error in hour field: '25'; for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr
f.hcl:8: task[0].drift.action: invalid action "fix"; allowed: report, apply
f.hcl:9: task[0].drift.time_zone: unknown time zone "Europe/Bonn"; an IANA name, such as "Europe/Berlin" or "UTC"`},
	{"a window without keys", aTask(services + "\nwindow {}"),
		`f.hcl:5: task[0].window[0].kind: the kind of the window is required; allow or deny
f.hcl:5: task[0].window[0].schedule: the schedule of the window is required; such as "0 22 * * Mon-Fri"; for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr
f.hcl:5: task[0].window[0].duration: the duration of the window is required; such as "6h"`},
	{"a window with wrong values", aTask(services + "\nwindow {\n kind = \"open\"\n schedule = \"0 25 * * *\"\n duration = \"1s\"\n time_zone = \"Europe/Bonn\"\n on = [\"apply\", \"plan\"]\n}"),
		`f.hcl:6: task[0].window[0].kind: invalid kind "open"; allowed: allow, deny
f.hcl:7: task[0].window[0].schedule: unable to parse the schedule "0 25 * * *": syntax error in hour field: '25'; for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr
f.hcl:8: task[0].window[0].duration: the duration "1s" is too short; at least 1m
f.hcl:9: task[0].window[0].time_zone: unknown time zone "Europe/Bonn"; an IANA name, such as "Europe/Berlin" or "UTC"
f.hcl:10: task[0].window[0].on[1]: unknown action "plan"; allowed: apply, destroy`},
	{"a schedule of the second window that goes backwards", "window {\n kind = \"deny\"\n schedule = \"@daily\"\n duration = \"1h\"\n}\nwindow {\n kind = \"deny\"\n schedule = \"0 22-6 * * *\"\n duration = \"1h\"\n}",
		`f.hcl:8: window[1].schedule: the schedule "0 22-6 * * *" has a range that goes backwards: "22-6"; write it as two, such as 22-23,0-6 for 22-6`},
	{"a check without a command", aTask(services + "\ncheck \"a\" {}"),
		`f.hcl:5: task[0].check.a.command: the check has no command; program and arguments, such as ["conftest", "test", "--policy", "policy", "-"]`},
	{"a check with wrong values", "check \"a b\" {\n command = [\"\"]\n on_fail = \"warn\"\n timeout = \"0s\"\n files = [\"none\"]\n}",
		`f.hcl:1: check.a b: not a name for a check: "a b"; letters, digits, '_', '-' and '.'
f.hcl:1: check.a b.command: the check has no command; program and arguments, such as ["conftest", "test", "--policy", "policy", "-"]
f.hcl:3: check.a b.on_fail: invalid on_fail "warn"; allowed: hold, fail
f.hcl:4: check.a b.timeout: the timeout must be longer than 0s; such as "30s"
f.hcl:5: check.a b.files: the files of the check cannot be read: there is no file or folder none; a path is relative to the folder in which Terrapulse is started`},
	{"a file of a check with an absolute path", "check \"a\" {\n command = [\"x\"]\n files = [\"/etc/policy\"]\n}",
		`f.hcl:3: check.a.files: the files of the check cannot be read: /etc/policy is an absolute path, which does not exist on another machine; a path is relative to the folder in which Terrapulse is started`},
	{"two checks with the same name", "check \"a\" { command = [\"x\"] }\ncheck \"a\" { command = [\"y\"] }",
		`f.hcl:2: check.a: another check (f.hcl:1) has the name "a"; give each a name of its own`},
	{"a check without a name", `check { command = ["x"] }`,
		`f.hcl:1: check: the block has no name; write it as in check "NAME" { ... }; in YAML as in check: {NAME: { ... }}`},
	{"a check with an unknown key", "check \"a\" {\n command = [\"x\"]\n on_failure = \"hold\"\n}",
		`f.hcl:3: check.a.on_failure: invalid key "on_failure"; allowed: command, enabled, files, on_fail, timeout`},
	{"a verification of nothing", aTask(services + "\nverify \"a\" {}"),
		`f.hcl:5: task[0].verify.a.http: the verification says nothing that could be verified; an http block, a command such as ["./check-bgp", "muc"], or terraform = true`},
	{"a verification in two ways", "verify \"a\" {\n command = [\"x\"]\n terraform = true\n}",
		`f.hcl:1: verify.a: http, command and terraform exclude each other; give each its own verify block`},
	{"check blocks that are waited for", "verify \"a\" {\n terraform = true\n within = \"1m\"\n}",
		`f.hcl:3: verify.a.within: within has no effect with terraform = true: Terraform evaluates check blocks once, in the apply; remove it`},
	{"a verification with wrong values", "verify \"a b\" {\n command = [\"\"]\n files = [\"/etc/x\"]\n within = \"1h\"\n every = \"0s\"\n on_failure = \"undo\"\n}",
		`f.hcl:1: verify.a b: not a name for a verify block: "a b"; letters, digits, '_', '-' and '.'
f.hcl:2: verify.a b.command: the command has no program; such as ["./check-bgp", "muc"]
f.hcl:3: verify.a b.files[0]: "/etc/x" is an absolute path, which does not exist on another machine; a path that is relative to the folder in which Terrapulse is started
f.hcl:4: verify.a b.within: within "1h" is too long: the run occupies its task as long; at most 15m
f.hcl:5: verify.a b.every: every must be longer than 0s; such as "30s"
f.hcl:6: verify.a b.on_failure: invalid on_failure "undo"; allowed: report, hold`},
	{"a request with wrong values", "verify \"a\" {\n http {\n  url = \"ftp://x\"\n  method = \"PUT\"\n  status = [\"2xx\", 99]\n  body = \"(\"\n  headers = { A = \"{{ env \\\"CONSUL_HTTP_TOKEN\\\" }}\" }\n }\n}",
		`f.hcl:3: verify.a.http.url: the url is not one with a scheme and a host; such as "https://10.0.0.1/health"
f.hcl:4: verify.a.http.method: invalid method "PUT"; allowed: GET, HEAD, POST, OPTIONS
f.hcl:5: verify.a.http.status[0]: not a status code or a range of them: "2xx"; such as 200 or "200-299"
f.hcl:5: verify.a.http.status[1]: not a status code or a range of them: "99"; such as 200 or "200-299"
f.hcl:6: verify.a.http.body: the body is not a regular expression: error parsing regexp: missing closing ): ` + "`(`" + `; see https://pkg.go.dev/regexp/syntax
f.hcl:7: verify.a.http.headers.A: the variable CONSUL_HTTP_TOKEN has a credential of Terrapulse, which is not sent elsewhere; use another variable`},
	{"a request with a password in its URL", "verify \"a\" {\n http { url = \"https://u:p@x/\" }\n}",
		`f.hcl:2: verify.a.http.url: the url has a user or a password, which logs and pages would show; use headers, such as Authorization = "Bearer {{ env \"TOKEN\" }}"`},
	{"two verifications with the same name", "verify \"a\" { command = [\"x\"] }\nverify \"a\" { command = [\"y\"] }",
		`f.hcl:2: verify.a: another verify block (f.hcl:1) has the name "a"; give each a name of its own`},
	{"a buffer period that is no duration", `buffer_period { min = "abc" }`,
		`f.hcl:1: buffer_period.min: invalid duration "abc"; a number with a unit, such as "500ms", "20s", "5m" or "1h"`},
	{"a Vault template without Vault", `terraform_provider "a" { token = "{{ with secret \"p\" }}{{ .Data.x }}{{ end }}" }`,
		`f.hcl:1: terraform_provider.a.token: detected dynamic configuration using Vault: missing Vault configuration; add a vault block with an address`},
	{"a template outside of a provider", aTask(services + "\ndescription = \"{{ env \\\"X\\\" }}\""),
		`f.hcl:5: task[0].description: dynamic configuration using template syntax is only supported for terraform_provider blocks and variables of task files; write the value itself, or set it by an environment variable`},
	{"tls without key and cert", `tls { enabled = true }`,
		`f.hcl:1: tls: key and cert are required if TLS is enabled on the API; set tls.key and tls.cert, or tls.enabled to false`},
	{"tls with cert only", `tls { cert = "x" }`,
		`f.hcl:1: tls.key: key is required if cert is configured for TLS on the API; the private key's file`},
	{"tls with files that are missing", "tls {\n cert = \"/nowhere/x\"\n key = \"/nowhere/x\"\n}",
		`f.hcl:2: tls.cert: cert "/nowhere/x" and key "/nowhere/x" do not load: open /nowhere/x: no such file or directory`},
	{"verify_incoming without CA", `tls { verify_incoming = true }`,
		"f.hcl:1: tls: key and cert are required if TLS is enabled on the API; set tls.key and tls.cert, or tls.enabled to false\n" +
			`f.hcl:1: tls.verify_incoming: either ca_cert or ca_path is required if verify_incoming is enabled on the API`},
	{"a check address without scheme", `consul { service_registration { default_check { address = "10.0.0.1" } } }`,
		`f.hcl:1: consul.service_registration.default_check.address: default check address must include scheme (http or https): "10.0.0.1"; such as "http://10.0.0.5:8558"`},
	{"a check address that is no URL", `consul { service_registration { default_check { address = "http//x" } } }`,
		`f.hcl:1: consul.service_registration.default_check.address: error with address for default check: "http//x" is not a URL with scheme and host; such as "http://10.0.0.5:8558"`},
	{"a service without name", `service {}`,
		`f.hcl:1: service[0].name: logical name for the Consul service is required`},
	{"two services of one id", "service { name = \"x\" }\nservice { name = \"x\" }",
		`f.hcl:2: service[1]: unique service IDs are required: "x"; set id to tell them apart`},
	{"a variable file that is missing", aTask(services + "\nvariable_files = [\"/nope.tfvars\"]"),
		`f.hcl:5: task[0].variable_files[0]: the variable file cannot be read: open /nope.tfvars: no such file or directory`},
	{"a log level", `log_level = "BOGUS"`,
		`f.hcl:1: log_level: invalid log level "BOGUS"; allowed: TRACE, DEBUG, INFO, WARN, ERR`},
	{"a port that is no number", `port = "abc"`,
		`f.hcl:1: port: cannot parse "abc" as int; it must be a whole number`},
	{"a port out of range", `port = 70000`,
		`f.hcl:1: port: "70000" is not a valid port; allowed: 0 to 65535`},
	{"driver chef", `driver "chef" {}`,
		`f.hcl:1: driver.chef: invalid key "chef"; allowed: terraform, terraform-cloud`},
	{"working_dir of the driver", `driver "terraform" { working_dir = "x" }`,
		`f.hcl:1: driver.terraform.working_dir: invalid key working_dir: it was removed from the driver, set working_dir at the top level or in the task`},
	{"tag of a service", "service {\n name = \"x\"\n tag = \"y\"\n}",
		`f.hcl:3: service[0].tag: invalid key tag: it was removed, use filter with "<tag>" in Service.Tags`},
	{"an unknown key of a task", aTask(services + "\nfoo = 1"),
		`f.hcl:5: task[0].foo: invalid key "foo"; allowed: after, after_timeout, approval, approval_expires, approve_destroy, aws_role, buffer_period, check, condition, description, drift, enabled, guard, labels, module, module_input, moved_from, name, on_removal, providers, require_distinct_approver, run_timeout, terraform_cloud_workspace, variable_files, variables, verify, version, window, working_dir`},
	{"a terraform_provider without label", `terraform_provider { x = 1 }`,
		`f.hcl:1: terraform_provider: the block has no name; write it as in terraform_provider "NAME" { ... }; in YAML as in terraform_provider: {NAME: { ... }}`},
	{"a terraform_provider with two labels", `terraform_provider "a" "b" {}`,
		`f.hcl:1: terraform_provider.a: the block has two labels, "a" and "b"; it takes one`},
	{"a typing mistake", aTask("condtion \"services\" { names = [\"web\"] }"),
		`f.hcl:4: task[0].condtion: invalid key "condtion"; did you mean "condition"?`},
	{"a bad filter", aTask(`condition "services" {
    names = ["web"]
    filter = "Service.Tags =="
  }`),
		`f.hcl:6: task[0].condition.services.filter: invalid filter "Service.Tags ==": 1:16 (15): no match found, expected: "-", "0", "\"", "` + "`" + `", [ \t\r\n], [1-9] or [a-zA-Z]; the syntax is https://developer.hashicorp.com/consul/api-docs/features/filtering`},
}

// onlyHCL are the mistakes that cannot be made in another format.
var onlyHCL = map[string]bool{"a terraform_provider with two labels": true}

func TestLoad_ReportsMistakes(t *testing.T) {
	for _, tt := range catalogue {
		t.Run(tt.name, func(t *testing.T) {
			if got := mistakes(t, "f.hcl", tt.file); got != tt.want {
				t.Errorf("said:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// nested is a tree of HCL as JSON and YAML have it: each key once, with a list
// of what is repeated.
func nested(n *node) *node {
	out := *n
	out.items, out.entries = nil, nil
	for _, item := range n.items {
		out.items = append(out.items, nested(item))
	}
	for _, e := range n.entries {
		value := nested(e.value)
		i := slices.IndexFunc(out.entries, func(before entry) bool { return before.key == e.key })
		if i < 0 {
			out.entries = append(out.entries, entry{key: e.key, pos: e.pos, value: value})
			continue
		}
		before := out.entries[i].value
		if before.kind != kindList {
			first := *before
			*before = node{kind: kindList, items: []*node{&first}}
		}
		before.items = append(before.items, value)
	}
	return &out
}

// inJSON writes a tree as JSON, with a line for each value.
func inJSON(t *testing.T, n *node) string {
	t.Helper()
	src, err := json.MarshalIndent(plain(n), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// inYAML writes a tree as YAML, with a line for each value.
func inYAML(t *testing.T, n *node) string {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(inJSON(t, n)), &doc); err != nil {
		t.Fatal(err)
	}
	var lines func(n *yaml.Node)
	lines = func(n *yaml.Node) {
		n.Style &^= yaml.FlowStyle
		for _, c := range n.Content {
			lines(c)
		}
	}
	lines(&doc)
	src, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// What is said of a mistake does not depend on the language of the file.
func TestLoad_ReportsTheSameMistakeInEachFormatAlike(t *testing.T) {
	place := regexp.MustCompile(`(?m)^f\.(hcl|json|yaml):(\d+): `)
	for _, tt := range catalogue {
		if onlyHCL[tt.name] {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			root := nested(parsed(t, "f.hcl", []byte(tt.file)))
			for name, file := range map[string]string{"f.json": inJSON(t, root), "f.yaml": inYAML(t, root)} {
				// Where another task is, is told with its line.
				places := regexp.MustCompile(`f\.(hcl|json|yaml):\d+`)
				lines := func(said string) string {
					all := strings.Split(places.ReplaceAllString(place.ReplaceAllString(said, ""), "f"), "\n")
					sort.Strings(all)
					return strings.Join(all, "\n")
				}
				got := mistakes(t, name, file)
				if lines(got) != lines(tt.want) {
					t.Errorf("%s\n%s\nsaid:\n%s\nwant:\n%s", name, file, got, tt.want)
				}
				for line := range strings.Lines(got) {
					if !strings.HasPrefix(line, name+":") {
						t.Errorf("%s: no place is given: %s", name, line)
					}
				}
			}
		})
	}
}

func TestVariables_MustBeLiteral(t *testing.T) {
	dir := write(t, "f.hcl", aTask(services+"\nvariable_files = [\"v.tfvars\"]"), "v.tfvars", "a = 1\nx = var.y\n")
	got := mistakesIn(t, options(dir, "f.hcl"))
	if want := "v.tfvars:2: task[0].variable_files[0]: x is not a literal value: Variables not allowed: Variables may not be used here; write the value itself"; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}

	got = mistakes(t, "f.hcl", aTask(services+"\nvariables { x = \"text\" }"))
	if want := `f.hcl:4: task[0].variables.x: not a literal value: Variables not allowed: Variables may not be used here; the text is Terraform source: a string has quotes of its own, "\"text\""`; strings.ReplaceAll(got, "f.hcl:5", "f.hcl:4") != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestLoad_MissingConditionIsAWarning(t *testing.T) {
	cfg := load(t, "f.hcl", aTask(""))
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].String() !=
		`f.hcl:1: task[0]: task "t" has no condition: it runs once and nothing ever triggers it again; add a condition block` {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	if c := cfg.Tasks[0].Condition; c.Spec != nil || c.UseAsModuleInput {
		t.Errorf("condition: %+v", c)
	}
}

func TestLoad_ServicesOfTheModuleTriggerATaskWithoutACondition(t *testing.T) {
	const input = "module_input \"services\" { regexp = \"^web\" }\nmodule_input \"consul-kv\" { path = \"a\" }"
	cfg := load(t, "f.hcl", aTask(input))
	same := load(t, "f.hcl", aTask(strings.Replace(input, "module_input", "condition", 1)))
	if diff := cmp.Diff(same.Tasks[0].Condition, cfg.Tasks[0].Condition); diff != "" || len(cfg.Warnings) > 0 {
		t.Errorf("condition: %s, warnings: %v", diff, cfg.Warnings)
	}
	if diff := cmp.Diff(same.Tasks[0].ModuleInputs, cfg.Tasks[0].ModuleInputs); diff != "" {
		t.Errorf("module inputs: %s", diff)
	}
	if kv := load(t, "f.hcl", aTask("module_input \"consul-kv\" { path = \"a\" }")); kv.Tasks[0].Condition.Spec != nil || len(kv.Warnings) != 1 {
		t.Errorf("keys trigger a task without a condition: %+v, warnings %v", kv.Tasks[0].Condition, kv.Warnings)
	}
}

func TestLoad_WarnsOfALocalStateInACluster(t *testing.T) {
	const cluster = aCluster
	cfg := load(t, "f.hcl", cluster+"driver \"terraform\" {\n backend \"local\" {}\n}\n")
	if len(cfg.Warnings) != 1 || !strings.HasPrefix(cfg.Warnings[0].String(), `f.hcl:7: driver.terraform.backend.local: Terraform's state stays on this machine`) {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	for _, fine := range []string{cluster, "driver \"terraform\" {\n backend \"local\" {}\n}\n"} {
		if cfg := load(t, "f.hcl", fine); len(cfg.Warnings) != 0 {
			t.Errorf("warnings: %v", cfg.Warnings)
		}
	}
}

func TestLoad_ReportsAllMistakesAtOnce(t *testing.T) {
	dir := write(t,
		"a.hcl", "port = \"abc\"\n\ntask {\n  nam = \"x\"\n  module = \"./m\"\n}\nconsul {",
		"b.yaml", "log_level: LOUD\ntask:\n  - name: 7up\n    modul: ./m\n    condition:\n      services:\n        name: [web]\n",
		"c.json", "{\n  \"buffer_period\": {\"min\": 5},\n  \"task\": [{\"name\": \"x\"}]\n}",
		"d.hcl", "port = \"abc\"\n\ntask {\n  nam = \"x\"\n}\n",
	)
	got := mistakesIn(t, options(dir, "."))
	want := `a.hcl:7: not valid HCL: object expected closing RBRACE got: EOF
b.yaml:1: log_level: invalid log level "LOUD"; allowed: TRACE, DEBUG, INFO, WARN, ERR
b.yaml:3: task[0].name: a task name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes: "7up"
b.yaml:3: task[0].module: module for the task is required; a directory such as "./my-module", or the address of a Terraform module
b.yaml:4: task[0].modul: invalid key "modul"; did you mean "module"?
b.yaml:7: task[0].condition.services.name: invalid key "name"; did you mean "names"?
c.json:2: buffer_period.min: invalid duration "5"; a number with a unit, such as "500ms", "20s", "5m" or "1h"
c.json:3: task[0].module: module for the task is required; a directory such as "./my-module", or the address of a Terraform module
d.hcl:1: port: cannot parse "abc" as int; it must be a whole number
d.hcl:3: task[0].name: unique name for the task is required; a name starts with a letter or underscore and has only letters, digits, underscores and dashes
d.hcl:3: task[0].module: module for the task is required; a directory such as "./my-module", or the address of a Terraform module
d.hcl:4: task[0].nam: invalid key "nam"; did you mean "name"?`
	if got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}
