package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// options reads these paths with an empty environment, relative to dir.
func options(dir string, paths ...string) Options {
	o := Options{Getenv: environment(nil), Dir: dir, Hostname: "host", Now: now}
	for _, p := range paths {
		o.Paths = append(o.Paths, Path{Name: p})
	}
	return o
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// write puts files into a new folder: name, content, name, content.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		writeFile(t, dir, files[i], files[i+1])
	}
	return dir
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// load reads one file that must be right.
func load(t *testing.T, name, content string) *Config {
	t.Helper()
	return loadEnv(t, nil, name, content)
}

func loadEnv(t *testing.T, env map[string]string, name, content string) *Config {
	t.Helper()
	o := options(write(t, name, content), name)
	o.Getenv = environment(env)
	cfg, err := Load(o)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return cfg
}

// ctyValues compares configurations field by field, without where they were read.
var ctyValues = cmp.Options{
	cmp.Comparer(func(a, b cty.Value) bool { return a.RawEquals(b) }),
	cmpopts.IgnoreUnexported(Config{}, Provider{}, Task{}, window.Window{}, drift.Spec{}),
	cmpopts.IgnoreFields(Task{}, "Source"),
	cmpopts.IgnoreFields(Config{}, "Warnings"),
	cmpopts.IgnoreFields(notify.Spec{}, "At"),
}

func TestLoad_ThreeFormatsMeanTheSame(t *testing.T) {
	hcl := mustLoad(t, options("testdata", "full.hcl"))
	for _, file := range []string{"full.json", "full.yaml"} {
		cfg := mustLoad(t, options("testdata", file))
		if diff := cmp.Diff(hcl, cfg, ctyValues); diff != "" {
			t.Errorf("full.hcl and %s differ:\n%s", file, diff)
		}
		if hcl.Digest() != cfg.Digest() {
			t.Errorf("the digests of full.hcl and %s differ", file)
		}
	}
}

func mustLoad(t *testing.T, o Options) *Config {
	t.Helper()
	cfg, err := Load(o)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return cfg
}

func TestLoad_ReadsEveryKey(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	cfg := mustLoad(t, options("testdata", "full.hcl"))
	global := Rules{
		Guard:    guard.Spec{Enabled: true, Within: 10 * time.Minute, MaxRemovedPercent: 50, MinEntries: 10, MaxRemoved: new(20), HoldEmpty: true},
		Approval: approval.Spec{Rule: approval.Destructive, Expires: 8 * time.Hour},
		Removal:  removal.Spec{On: removal.Destroy, Approve: removal.Always},
		Windows: []window.Window{
			{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 6 * time.Hour, TimeZone: "Europe/Berlin"},
			{Kind: window.Deny, Schedule: "0 0 24 12 *", Duration: 72 * time.Hour, On: []window.Action{window.Apply}, AllowRemovalsAlways: true},
		},
		Checks: []policycheck.Spec{{Name: "public", Enabled: true, Command: []string{"conftest", "test", "-"}, OnFail: "hold", Timeout: 30 * time.Second}},
		Drift:  drift.Spec{Enabled: true, Every: 12 * time.Hour, Action: drift.Report},
	}
	want := &Config{
		RunTimeout: 90 * time.Minute, KeepRemoved: 48 * time.Hour, AuditRetention: 72 * time.Hour,
		Rules:    global,
		LogLevel: "ERR", Port: 8502, WorkingDir: "working", ID: "terrapulse-1",
		Syslog: Syslog{Enabled: true, Facility: "LOCAL0", Name: "terrapulse"},
		Consul: Consul{
			Address: "consul.example.com:8500", Token: "consul-token", KVPath: "network",
			Auth: BasicAuth{Enabled: true, Username: "someone", Password: "something"},
			TLS: ClientTLS{
				Enabled: true, CACert: "/etc/consul/ca.pem", CAPath: "/etc/consul/ca.d",
				Key: "/etc/consul/key.pem", ServerName: "server.dc1.consul",
			},
			Transport: Transport{
				DialKeepAlive: 5 * time.Second, DialTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
				MaxIdleConnsPerHost: 100, TLSHandshakeTimeout: 10 * time.Second,
			},
			ServiceRegistration: ServiceRegistration{
				Enabled: true, ServiceName: "consul-terraform-sync",
				DefaultCheck: DefaultCheck{Enabled: true, Address: "http://10.0.0.5:8502"},
			},
		},
		Vault: Vault{
			TLS: ClientTLS{Enabled: true, Verify: true},
			Transport: Transport{
				DialKeepAlive: 30 * time.Second, DialTimeout: 30 * time.Second, IdleConnTimeout: 5 * time.Second,
				MaxIdleConnsPerHost: 100, TLSHandshakeTimeout: 10 * time.Second,
			},
		},
		API: API{
			BindAddress: "10.0.0.5", Hosts: []string{"terrapulse.example.com", "terrapulse"},
			Token:     APIToken{Key: "api.token", Text: `{{ env "TERRAPULSE_TOKEN" }}`},
			ReadToken: APIToken{Key: "api.read_token_file", File: "/etc/terrapulse/read-token"},
		},
		Terraform: Terraform{
			Engine: "terraform", Version: "1.16.4", Path: filepath.Join(dir, "bin"), Log: true,
			Backend: Backend{Type: "consul", Body: Body{Attributes: map[string]cty.Value{
				"address": cty.StringVal("consul.example.com:8500"), "path": cty.StringVal("network/terraform"), "gzip": cty.True,
				"scheme": cty.StringVal("https"), "ca_file": cty.StringVal("/etc/consul/ca.pem"), "key_file": cty.StringVal("/etc/consul/key.pem"),
			}}},
			RequiredProviders: map[string]cty.Value{
				"local": cty.StringVal("~> 2.8"),
				"firewall": cty.ObjectVal(map[string]cty.Value{
					"version": cty.StringVal("v0.0.1"), "source": cty.StringVal("example/firewall"),
				}),
			},
		},
		Providers: []Provider{
			{Name: "local"},
			{
				Name: "firewall", Alias: "east", Env: map[string]string{"FIREWALL_TOKEN": "secret"},
				Body: Body{
					Attributes: map[string]cty.Value{
						"address": cty.StringVal("10.0.0.1"), "retries": cty.NumberIntVal(3), "secure": cty.True,
					},
					Blocks: map[string][]Body{"login": {{
						Attributes: map[string]cty.Value{
							"user":   cty.StringVal("admin"),
							"limits": cty.ObjectVal(map[string]cty.Value{"sessions": cty.NumberIntVal(5)}),
						},
						Blocks: map[string][]Body{"realm": {
							{Attributes: map[string]cty.Value{"name": cty.StringVal("one")}},
							{Attributes: map[string]cty.Value{"name": cty.StringVal("two")}},
						}},
					}}},
				},
			},
		},
		BufferPeriod: BufferPeriod{Enabled: true, Min: 20 * time.Second, Max: time.Minute},
		Tasks: []Task{
			{
				Name: "firewall", Description: "keep the firewall's address groups in step", Enabled: true,
				Module: filepath.Join(dir, "firewall"), Providers: []string{"local", "firewall.east"},
				Variables: map[string]cty.Value{"zone": cty.StringVal("dmz")},
				Condition: Condition{
					UseAsModuleInput: true,
					Spec: condition.CatalogServices{
						Regexp: ".*", Datacenter: "dc2", Namespace: "ns2",
						NodeMeta: map[string]string{"key1": "value1", "key2": "value2"},
					},
				},
				ModuleInputs: []condition.Spec{
					condition.Services{
						{Names: []string{"api"}},
						{Names: []string{"db"}, Namespace: "team-b", CTSUserDefinedMeta: map[string]string{"owner": "b"}},
						{Names: []string{"cache"}},
					},
					condition.ConsulKV{Path: "firewall/rules", Recurse: true, Datacenter: "dc2", Namespace: "ns2"},
				},
				BufferPeriod: BufferPeriod{Enabled: true, Min: 20 * time.Second, Max: time.Minute},
				RunTimeout:   90 * time.Minute,
				Rules:        global,
				WorkingDir:   filepath.Join("working", "firewall"), DeprecatedServices: []string{"api", "db-b", "cache"},
			},
			{
				Name: "report", Module: "example/report/local", Version: "1.2.0",
				Condition: Condition{Spec: condition.Schedule{Cron: "0 6 * * Mon"}},
				ModuleInputs: []condition.Spec{
					condition.Services{{Names: []string{"web"}, Filter: `"v1" in Service.Tags`}},
				},
				Rules: Rules{
					Guard:    guard.Spec{Enabled: true, Within: 0, MaxRemovedPercent: 50, MaxRemoved: new(5), HoldEmpty: true, MaxDestroy: new(3)},
					Approval: approval.Spec{Rule: approval.Destructive, Expires: 8 * time.Hour, DistinctApprover: true},
					Removal:  removal.Spec{On: removal.Destroy, Approve: removal.Always},
					Windows:  []window.Window{{Kind: window.Deny, Schedule: "0 8 * * Mon-Fri", Duration: 10 * time.Hour, TimeZone: "UTC"}},
					Checks: []policycheck.Spec{
						{Name: "names", Enabled: true, Command: []string{"./check-names"}, OnFail: "fail", Timeout: 5 * time.Second},
						{Name: "public", Command: []string{"conftest", "test", "-"}, OnFail: "hold", Timeout: 30 * time.Second},
					},
					Drift: drift.Spec{Enabled: true, Schedule: "0 3 * * *", TimeZone: "UTC", Action: drift.Apply},
				},
				AWSRole: "arn:aws:iam::123456789012:role/report", WorkingDir: filepath.Join("working", "report"),
			},
		},
	}
	if diff := cmp.Diff(want, cfg, ctyValues); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, w := range cfg.Warnings {
		warnings = append(warnings, w.String())
	}
	wantWarnings := `full.hcl:81: service: service is deprecated; use condition "services" in the task
full.hcl:86: service: service is deprecated; use condition "services" in the task
full.hcl:127: task[0].services: services is deprecated; use condition "services" or module_input "services"`
	if got := strings.Join(warnings, "\n"); got != wantWarnings {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, wantWarnings)
	}
}

func TestLoadStoreSettings_NeedsOnlyWhatNamesTheStore(t *testing.T) {
	o := options(write(t, "a.hcl", "working_dir = \"here\"\nport = \"wrong\"\nnonsense = 1\ntask {}\n", "b.yaml",
		"high_availability: {cluster: {name: network, storage: {consul: {parent_path: up}}}}\n"), "a.hcl")
	o.Getenv = environment(map[string]string{"CONSUL_HTTP_ADDR": "consul:8501", "CONSUL_HTTP_TOKEN": "secret"})
	got, err := LoadStoreSettings(o)
	if err != nil || got.WorkingDir != "here" || got.HighAvailability != nil {
		t.Errorf("%+v %v", got, err)
	}
	o.Paths = append(o.Paths, Path{Name: "b.yaml"})
	got, err = LoadStoreSettings(o)
	if err != nil || got.HighAvailability == nil || got.HighAvailability.Cluster.Path() != "up/network" || got.Consul.Address != "consul:8501" || got.Consul.Token != "secret" {
		t.Errorf("%+v %v", got, err)
	}
	o.Paths = nil
	if got, err := LoadStoreSettings(o); err != nil || got.WorkingDir != "sync-tasks" {
		t.Errorf("without files: %+v %v", got, err)
	}
	for content, want := range map[string]string{
		"working_dir = [1, 2]":     "f.hcl:1: working_dir: must be a string, not a list",
		"task {\n":                 "f.hcl:2: not valid HCL",
		"high_availability {\n}\n": "f.hcl:1: high_availability.cluster.name: name is required",
	} {
		if _, err := LoadStoreSettings(options(write(t, "f.hcl", content), "f.hcl")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
	if _, err := LoadStoreSettings(options(t.TempDir(), "gone.hcl")); err == nil || !strings.Contains(err.Error(), "gone.hcl") {
		t.Errorf("a missing file: %v", err)
	}
}
