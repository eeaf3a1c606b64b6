package terraformcli

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestLockError_NamesTheLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, slowModule)
	holder := f.open()
	f.init(holder, true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = holder.Apply(ctx) // interrupted below
	}()
	defer func() { cancel(); <-ended }()
	waitFor(t, "the holder of the lock has started", f.started)

	impatient := func(o *Options) { o.LockTimeout = time.Millisecond }
	_, err := f.open(impatient).Apply(t.Context())
	_, judgedErr := f.open(impatient).ApplyJudged(t.Context(), (&judged{}).judge)
	for _, err := range []error{err, judgedErr} {
		var locked *LockError
		if !errors.As(err, &locked) {
			t.Fatalf("got %v", err)
		}
		if locked.ID == "" || locked.Who == "" || locked.Created == "" || locked.Operation != "OperationTypeApply" || locked.Path == "" {
			t.Errorf("got %+v", locked)
		}
		for _, want := range []string{"the state is locked by ", "terraform force-unlock " + locked.ID} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
	}
}

// The Consul backend locks a workspace when it opens it, without regard to
// -lock-timeout: the wait is ours.
func TestApply_WaitsForALockOfTheConsulBackend(t *testing.T) {
	server := consultest.Start(t)
	f := newFixture(t, fileModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
		"address": cty.StringVal(server.Addr()), "path": cty.StringVal("kv/terraform")}}}
	f.render("api")
	d := f.open()
	f.init(d, true)
	f.apply(d)

	client := server.Client()
	lock, err := client.LockKey("kv/terraform-env:web/.lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Lock(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open(func(o *Options) { o.LockTimeout = time.Millisecond }).Apply(t.Context()); !isLocked(err) {
		t.Fatalf("got %v", err)
	}
	released := make(chan error, 1)
	go func() {
		// Once Terraform has been refused, which the log shows.
		for deadline := time.Now().Add(time.Minute); strings.Count(f.log.String(), "failed to lock state") < 2 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		released <- lock.Unlock()
	}()
	f.render("api", "db")
	f.apply(f.open())
	if err := <-released; err != nil {
		t.Error(err)
	}
}

func TestError_SaysWhatToDo(t *testing.T) {
	f := newFixture(t, `variable "other" {}`)
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"a module without services", func() {}, []string{ // init finds it since Terraform 1.16, else apply
			` of task web: the module of task web has no variable "services": declare it (every module gets the services)`,
			"Unsupported argument"}},
		{"a module without consul_kv", func() {
			f.writeModule(`variable "services" {}`)
			f.task.Condition = config.Condition{Spec: condition.ConsulKV{}, UseAsModuleInput: true}
			f.render()
			write(t, filepath.Join(f.dir, "kv.auto.tfvars"), "consul_kv = {}")
		}, []string{`no variable "consul_kv": declare it, or set use_as_module_input = false in the condition of task web, or remove its module_input`}},
		{"a module without a variable of the task", func() {
			f.task.Condition = config.Condition{}
			f.task.Variables = map[string]cty.Value{"size": cty.NumberIntVal(1)}
			f.render()
		}, []string{`no variable "size": declare it, or remove it from variables`}},
		{"a variable that the task does not set", func() {
			f.writeModule("variable \"services\" {}\nvariable \"must\" {}")
			f.task.Variables = nil
			f.render()
		}, []string{`needs a value for its variable "must": set it in variables or variable_files of task web`}},
		{"a provider that nobody has", func() {
			f.writeModule("variable \"services\" {}\nresource \"nonsense_thing\" \"x\" {}")
		}, []string{"a provider cannot be fetched", "nonsense"}},
		{"a module that is not there", func() {
			f.task.Module = "/nowhere/at/all"
			f.render()
		}, []string{"the module cannot be ", "/nowhere/at/all"}},
		{"a failing apply", func() {
			f.task.Module = f.module
			f.writeModule("variable \"services\" {}\nresource \"local_file\" \"x\" {\n  filename = \"/proc/nowhere/x\"\n  content = \"\"\n}")
			f.render()
		}, []string{"terraform apply of task web: ", "/proc/nowhere"}},
	} {
		c.change()
		d := f.open()
		_, err := d.Init(t.Context())
		if err == nil {
			_, err = d.Apply(t.Context())
		}
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
		for _, bad := range []string{"exit status", "│", "╷", "\nError:"} {
			if strings.Contains(err.Error(), bad) {
				t.Errorf("%s: %q has %q", c.name, err, bad)
			}
		}
	}
}

// Terraform works in the folder of the task, so a relative path does not mean the folder in which the program
// was started.
func TestError_SaysThatTheCLIConfigurationIsNotFound(t *testing.T) {
	f := newFixture(t, "variable \"services\" {}\nresource \"nonsense_thing\" \"x\" {}")
	t.Setenv("HTTPS_PROXY", closedPort(t)) // no registry answers
	t.Setenv("TF_REGISTRY_DISCOVERY_RETRY", "0")
	for path, want := range map[string]string{
		"terraform.rc":          "there is no file terraform.rc in " + f.dir + ", where Terraform searches what TF_CLI_CONFIG_FILE names: name an absolute path",
		"/nowhere/terraform.rc": "there is no file /nowhere/terraform.rc, which TF_CLI_CONFIG_FILE names",
	} {
		t.Setenv("TF_CLI_CONFIG_FILE", path)
		if _, err := f.open().Init(t.Context()); err == nil || !strings.Contains(err.Error(), "a provider cannot be fetched, and "+want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestPluginCache_InRelativeCLIConfiguration(t *testing.T) {
	f := newFixture(t, fileModule)
	write(t, filepath.Join(f.dir, "terraform.rc"), `plugin_cache_dir = "/var/cache/terraform"`)
	if cache := f.open().pluginCache(map[string]string{"TF_CLI_CONFIG_FILE": "terraform.rc"}); cache == nil || cache.dir != "/var/cache/terraform" {
		t.Errorf("got %+v", cache)
	}
}
