package terraformcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// watchedProviders has Terraform install the real providers with a script before each that counts
// its starts, which are returned by the name of the provider, and reads Consul's token.
func (f *fixture) watchedProviders() (starts func(name string) int) {
	f.t.Helper()
	mirror, counts := f.t.TempDir(), f.t.TempDir()
	real, err := filepath.Glob(filepath.Join(filepath.Dir(testtools.TerraformRC(f.t)), "mirror", registryHost(), "hashicorp", "*", "*", "*", "*"))
	if err != nil || len(real) == 0 {
		f.t.Fatalf("no providers: %v", err)
	}
	for _, path := range real {
		rel, _ := filepath.Rel(filepath.Join(filepath.Dir(testtools.TerraformRC(f.t)), "mirror"), path)
		name := strings.Split(rel, string(filepath.Separator))[2]
		to := filepath.Join(mirror, rel)
		write(f.t, to, fmt.Sprintf("#!/bin/sh\necho $$ >> %s\n"+
			"[ -z \"$CONSUL_HTTP_TOKEN_FILE\" ] || { IFS= read -r token < \"$CONSUL_HTTP_TOKEN_FILE\"; echo \"read: $token\" >> %s; }\nexec %s\n",
			filepath.Join(counts, name), filepath.Join(counts, "token"), path))
		if err := os.Chmod(to, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	rc := filepath.Join(f.t.TempDir(), "terraform.rc")
	write(f.t, rc, fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	f.t.(*testing.T).Setenv("TF_CLI_CONFIG_FILE", rc)
	f.tokens = filepath.Join(counts, "token")
	return func(name string) int {
		raw, _ := os.ReadFile(filepath.Join(counts, name))
		return strings.Count(string(raw), "\n")
	}
}

func TestProviders_StartOnceForACommand(t *testing.T) {
	f := newFixture(t, fileModule)
	starts := f.watchedProviders()
	f.init(f.open(), true)
	before := starts("local")
	if changes := f.apply(f.open()); changes.Add != 1 {
		t.Errorf("%+v", changes)
	}
	if n := starts("local") - before; n != 1 {
		t.Errorf("an apply started the provider %d times", n)
	}
	f.render("api", "web")
	before = starts("local")
	if _, err := f.open().ApplyJudged(t.Context(), (&judged{}).judge); err != nil {
		t.Fatalf("%v\n%s", err, f.log.String())
	}
	if n := starts("local") - before; n != 2 {
		t.Errorf("a plan and its apply started the provider %d times", n)
	}
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api,web" {
		t.Errorf("applied: %s", got)
	}
	waitFor(t, "no provider runs any more", func() bool { return len(descendants(f.dir)) == 0 })
}

func TestProviders_AreStartedByTerraformWhereOneProcessWouldNotDo(t *testing.T) {
	aliased := "\nprovider \"local\" {}\nprovider \"local\" {\n  alias = \"other\"\n}\n"
	for _, c := range []struct {
		name, module, root string
		opts               func(*Options)
	}{
		{name: "a provider with an alias", module: fileModule, root: aliased},
		{name: "a module with a provider block", module: fileModule + "provider \"local\" {}\n"},
		{name: "a provisioner", module: fileModule + "resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    command = \"true\"\n  }\n}\n"},
		{name: "a trace", module: fileModule, opts: func(o *Options) { o.PersistLog = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.module)
			starts := f.watchedProviders()
			if c.root != "" {
				write(t, filepath.Join(f.dir, "providers.tf"), c.root)
			}
			opts := func(o *Options) {
				if c.opts != nil {
					c.opts(o)
				}
			}
			f.init(f.open(opts), true)
			before := starts("local")
			f.apply(f.open(opts))
			if n := starts("local") - before; n < 2 {
				t.Errorf("an apply started the provider %d times: Terraform starts it for each step", n)
			}
		})
	}
}

func TestProviders_OverridesOfACLIConfigurationAreUsed(t *testing.T) {
	f := newFixture(t, fileModule)
	starts := f.watchedProviders()
	f.init(f.open(), true)
	dir := filepath.Dir(provider(filepath.Join(filepath.Dir(testtools.TerraformRC(t)), "mirror"), &registrytest.Package{Version: "2.8.0"}))
	rc := filepath.Join(t.TempDir(), "terraform.rc")
	write(t, rc, fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"hashicorp/local\" = %q\n  }\n}\n", filepath.Join(dir, runtime.GOOS+"_"+runtime.GOARCH)))
	t.Setenv("TF_CLI_CONFIG_FILE", rc)
	before := starts("local")
	f.apply(f.open())
	if n := starts("local") - before; n != 0 {
		t.Errorf("the installed provider was started %d times in spite of an override", n)
	}
}

func TestProviders_AChangedProgramIsNotStarted(t *testing.T) {
	f := newFixture(t, fileModule)
	f.watchedProviders()
	f.init(f.open(), true)
	time.Sleep(settled + 100*time.Millisecond)
	f.apply(f.open()) // the checksum is known
	found, err := filepath.Glob(f.open().data("providers", "*", "*", "local", "*", "*", "terraform-provider-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	text, started := read(t, found[0]), filepath.Join(t.TempDir(), "started")
	forged := "#!/bin/sh\n: > " + started + "\n"
	if len(forged) < len(text) { // the same size and time: only the content differs
		forged += strings.Repeat("#", len(text)-len(forged))
	}
	write(t, found[0], forged)
	if err := os.Chtimes(found[0], info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open().Apply(t.Context()); err == nil {
		t.Error("an apply with a forged provider succeeded")
	}
	if exists(started) {
		t.Error("a program was started that is not the one in the lock file")
	}
}

// sleepModule creates a resource of a provider that takes long.
const sleepModule = `
variable "services" {}
resource "time_sleep" "long" {
  create_duration = "300s"
}
`

// runningProvider waits for the provider of an apply and returns its process.
func (f *fixture) runningProvider() int {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !strings.Contains(f.log.String(), "Creating...") {
			continue
		}
		for pid, argv := range descendants(f.dir) {
			if strings.Contains(argv, "provider-time") {
				return pid
			}
		}
	}
	return 0
}

func TestProviders_TheLogShowsHowAProviderHasEnded(t *testing.T) {
	f := newFixture(t, sleepModule)
	d := f.open()
	f.init(d, true)
	go func() {
		if pid := f.runningProvider(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	if _, err := d.Apply(t.Context()); err == nil {
		t.Fatal("the apply succeeded without its provider")
	}
	if want := "/hashicorp/time has ended: signal: killed"; !strings.Contains(f.log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, f.log.String())
	}
}

func TestProviders_OfWhatOneHasPrintedTheLastPanicIsShown(t *testing.T) {
	var kept tail
	kept.Write([]byte("panic: an older one, that was handled\n" + strings.Repeat("a line\n", 30_000)))
	if got := kept.lastWords(); got != strings.TrimSpace(strings.Repeat("a line\n", lastLines)) {
		t.Errorf("without a panic: %q", got)
	}
	kept.Write([]byte("panic: nil map\n\ngoroutine 1 [running]:\n" + strings.Repeat("\tframe\n", 200)))
	got := kept.lastWords()
	if !strings.HasPrefix(got, "panic: nil map\n\ngoroutine 1") || strings.Count(got, "\n") != lastLines-1 {
		t.Errorf("with a panic: %q", got)
	}
	if len(kept.text) > 2*tailLimit {
		t.Errorf("%d bytes are kept", len(kept.text))
	}
}

func TestProviders_AnInterruptedApplyEndsThem(t *testing.T) {
	f := newFixture(t, sleepModule)
	d := f.open()
	f.init(d, true)
	ctx, cancel := context.WithCancel(t.Context())
	pid := 0
	go func() {
		pid = f.runningProvider()
		cancel()
	}()
	began := time.Now()
	_, err := d.Apply(ctx)
	if interrupted := (*InterruptedError)(nil); !errors.As(err, &interrupted) {
		t.Errorf("got %v", err)
	}
	if pid == 0 || syscall.Kill(pid, 0) == nil {
		t.Errorf("the provider %s was not there, or still runs", strconv.Itoa(pid))
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("it took %s: Terraform was not interrupted, but killed", took)
	}
}

func TestProviders_DoNotReadConsulsToken(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	token := stateToken(t, server)
	f := newFixture(t, fileModule)
	starts := f.watchedProviders()
	if err := f.applyWith(fmt.Sprintf("consul {\naddress = %q\ntoken = %q\n}", server.Addr(), token)); err != nil {
		t.Fatalf("%v\n%s", err, f.log.String())
	}
	if tried := read(t, f.tokens); starts("local") == 0 || !strings.Contains(tried, "read: ") || strings.Contains(tried, token) {
		t.Errorf("a provider found: %s", tried)
	}
}
