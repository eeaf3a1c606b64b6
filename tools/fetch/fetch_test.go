package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
)

// If a test needs an installed program, it links this test binary under the program's name, and
// sets the version that it prints.
const versionVariable = "FETCH_TEST_VERSION"

func TestMain(m *testing.M) {
	if v := os.Getenv(versionVariable); v != "" && len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Printf(`{"Version": %q}`, v)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTools_PinnedModulesMatchTheTable(t *testing.T) {
	for _, tool := range tools {
		if tool.module == "" {
			continue
		}
		mod, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(tool.module), "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^require \S+ v` + regexp.QuoteMeta(tool.version) + `$`)
		if !line.Match(mod) {
			t.Errorf("%s/go.mod does not require %s %s", tool.module, tool.name, tool.version)
		}
	}
}

func TestChoose_ByName(t *testing.T) {
	names := func(chosen []tool) string {
		var names []string
		for _, t := range chosen {
			names = append(names, t.name)
		}
		return strings.Join(names, " ")
	}
	chosen, err := choose(nil)
	const run = "consul terraform terraform-provider-local terraform-provider-time"
	if got := names(chosen); err != nil || got != run+" nomad dex dynamodb python parliament iam browser" && runtime.GOOS != "windows" {
		t.Errorf("without names: %s, %v", got, err)
	}
	chosen, err = choose([]string{"run"})
	if got := names(chosen); err != nil || got != run {
		t.Errorf("what the demo needs: %s, %v", got, err)
	}
	chosen, err = choose([]string{"judges", "release"})
	if got := names(chosen); err != nil || got != "conftest promtool helm kubernetes-validate goreleaser cyclonedx-gomod schemathesis go-tfe pytfe" {
		t.Errorf("what only make test-all needs: %s, %v", got, err)
	}
	chosen, err = choose([]string{"docs"})
	if got := names(chosen); err != nil || got != "site site-scripts" {
		t.Errorf("what make docs needs: %s, %v", got, err)
	}
	chosen, err = choose([]string{"lint"})
	if got := names(chosen); err != nil || got != "staticcheck govulncheck actionlint checkov" {
		t.Errorf("the set lint: %s, %v", got, err)
	}
	chosen, err = choose([]string{"govulncheck", "staticcheck"})
	if got := names(chosen); err != nil || got != "staticcheck govulncheck" {
		t.Errorf("linters: %s, %v", got, err)
	}
	chosen, err = choose([]string{"consuls"})
	if got := names(chosen); err != nil || len(chosen) != len(consuls) || !chosen[0].other {
		t.Errorf("the set consuls: %s, %v", got, err)
	}
	chosen, err = choose([]string{"terraforms"})
	if got := names(chosen); err != nil || len(chosen) != len(terraforms) || !chosen[0].other {
		t.Errorf("the set terraforms: %s, %v", got, err)
	}
	chosen, err = choose([]string{"consul"})
	if got := names(chosen); err != nil || got != "consul" || chosen[0].other {
		t.Errorf("consul alone: %s, %v", got, err)
	}
	if _, err = choose([]string{"consul", "vault"}); err == nil ||
		!strings.Contains(err.Error(), `"vault"`) || !strings.Contains(err.Error(), "terraform-provider-time") {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestFetch_UsesAnInstalledProgram(t *testing.T) {
	w := newFixture(t)
	installed := w.install("1.21.0")
	w.fetch(w.hello)
	w.leadsTo(installed)
	w.says("hello: " + installed)
}

func TestFetch_IgnoresAnOldInstalledProgram(t *testing.T) {
	w := newFixture(t)
	w.install("1.14.9")
	cached := w.fillCache()
	w.fetch(w.hello)
	w.leadsTo(cached)
	w.says("1.14.9 and is not used: 1.15.0 or newer is needed")
}

func TestFetch_IgnoresAnInstalledProgramWithoutVersion(t *testing.T) {
	w := newFixture(t)
	w.install("what?")
	cached := w.fillCache()
	w.fetch(w.hello)
	w.leadsTo(cached)
	w.says("does not tell its version")
}

func TestFetch_IgnoresItsOwnFolderOnPath(t *testing.T) {
	w := newFixture(t)
	w.path = []string{filepath.Join(w.top, ".tools", "bin")}
	w.fillCache()
	w.fetch(w.hello)
	w.hello.version = "1.2.4"
	next := w.fillCache()
	w.fetch(w.hello)
	w.leadsTo(next)
}

func TestFetch_BuildsFromSourceWithoutReleases(t *testing.T) {
	w := newFixture(t)
	w.fetch(w.hello)
	w.leadsTo(w.cached(w.hello))
	w.says("HashiCorp's releases cannot be reached", "it is built from source instead", "hello: building 1.2.3")
	out, err := exec.Command(w.destination(w.hello)).Output()
	if err != nil || string(out) != "hello 1.2.3" {
		t.Errorf("the program built says %q, %v", out, err)
	}
	w.isTidy()
}

func TestFetch_DoesNotWaitForReleasesThatRefuse(t *testing.T) {
	w := newFixture(t)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(rw, "not from here", http.StatusForbidden)
	}))
	defer server.Close()
	w.releases = server.URL
	other := w.hello
	other.version = "1.2.4"
	w.fetch(w.hello, other)
	w.says("answer 403 Forbidden")
	if asked != 1 {
		t.Errorf("asked %d times, want once for all tools", asked)
	}
}

func TestFetch_OtherVersionHasItsOwnFolder(t *testing.T) {
	w := newFixture(t)
	installed := w.install("1.21.0")
	other := tool{name: "hello", version: "1.20.9", other: true, product: w.hello.product}
	w.fill(other)
	w.fetch(other)
	if !same(w.cached(other), w.destination(other)) || same(installed, w.destination(other)) {
		t.Errorf("another version is not installed as %s", w.destination(other))
	}
	if want := filepath.Join(w.top, ".tools", "hello", "1.20.9", "hello"+exe()); w.destination(other) != want {
		t.Errorf("another version is at %s, want %s", w.destination(other), want)
	}
}

func TestConsuls_AreInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Versions of Consul\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\S+) \| passes`).FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
	}
	tested := append([]string{tools[0].version}, consuls...) // Consul is the first tool
	slices.Sort(listed)
	slices.Sort(tested)
	if !slices.Equal(listed, tested) {
		t.Errorf("docs/operate.md lists Consul %v as tested, want %v", listed, tested)
	}
}

func TestTerraforms_AreInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "driver.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, sentence, _ := strings.Cut(string(text), "tested with Terraform ")
	sentence, _, _ = strings.Cut(sentence, "OpenTofu")
	var tested []string
	for _, v := range terraforms {
		tested = append(tested, v.version)
	}
	if listed := regexp.MustCompile(`\d+\.\d+\.\d+`).FindAllString(sentence, -1); !slices.Equal(listed, tested) {
		t.Errorf("docs/reference/driver.md lists Terraform %v as tested, want %v", listed, tested)
	}
}

func TestTerraform_HasOneVersionByDefault(t *testing.T) {
	for file, before := range map[string]string{
		"template.yaml": "public.ecr.aws/hashicorp/terraform:", "docs/deploy.md": "/hashicorp/terraform:",
		"docs/reference/driver.md": "    version: ", "docs/reference/terraform-cloud.md": "terraform_version: ", "docs/trust.md": `"terraform_version": "`,
		"internal/taskfile/config/schema.go": `form:"version" example:"`, "internal/taskfile/config/resolve.go": `such as "`,
		"infra/runner/build": "TERRAFORM_VERSION:-",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(regexp.QuoteMeta(before)+`(\d+\.\d+\.\d+)`).FindAllStringSubmatch(string(text), -1)
		if len(named) == 0 {
			t.Errorf("%s names no version of Terraform", file)
		}
		for _, n := range named {
			if n[1] != terraform {
				t.Errorf("%s names Terraform %s, want %s", file, n[1], terraform)
			}
		}
	}
}

func TestFetch_OtherVersionIsBuiltInAModuleOfItsOwn(t *testing.T) {
	w := newFixture(t)
	w.write("lib/go.mod", "module example.com/lib\n\ngo 1.26\n")
	w.write("lib/lib.go", "package lib\n\nconst Version = \"1.2.9\"\n")
	w.write("hello/go.mod", "module example.com/other/hello\n\ngo 1.26\n\nrequire example.com/lib v0.0.0-00010101000000-000000000000\n\nreplace example.com/lib => ../lib\n")
	w.write("hello/main.go", "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/lib\"\n)\n\nfunc main() { fmt.Print(lib.Version) }\n")
	other := tool{name: "hello", version: "1.2.9", other: true, pkg: "example.com/other/hello",
		directives: "replace example.com/other/hello => TOP/hello\nreplace example.com/lib => TOP/lib\n"}
	w.fetch(other)
	if out, err := exec.Command(w.destination(other)).Output(); err != nil || string(out) != "1.2.9" {
		t.Errorf("the program built says %q, %v", out, err)
	}
	w.isTidy()
}

func TestFetch_SecondRunDoesNothing(t *testing.T) {
	w := newFixture(t)
	w.fillCache()
	w.fetch(w.hello)
	before := w.tree()
	w.log.(*bytes.Buffer).Reset()
	w.fetch(w.hello)
	if said := w.log.(*bytes.Buffer).String(); said != "" {
		t.Errorf("it says %q", said)
	}
	if after := w.tree(); after != before {
		t.Errorf("it touched files:\n%s\nwant\n%s", after, before)
	}
}

func TestFetch_NewVersionReplacesTheOldOne(t *testing.T) {
	w := newFixture(t)
	w.fillCache()
	w.fetch(w.hello)
	w.hello.version = "1.2.4"
	next := w.fillCache()
	w.fetch(w.hello)
	w.leadsTo(next)
}

func TestFetch_TwoRunsAtOnce(t *testing.T) {
	w := newFixture(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			other := *w.fetcher
			other.log = new(bytes.Buffer)
			if err := other.fetch(t.Context(), []tool{w.hello}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.leadsTo(w.cached(w.hello))
	w.isTidy()
}

func TestFetch_FailedBuildShowsWhyAndLeavesNothing(t *testing.T) {
	w := newFixture(t)
	w.write("tools/hello/main.go", "package main\n\nfunc main() { undefined() }\n")
	err := w.fetcher.fetch(t.Context(), []tool{w.hello})
	if err == nil || !strings.Contains(err.Error(), "get hello: ") || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Lstat(w.destination(w.hello)); err == nil {
		t.Error("something was put in place")
	}
	w.isTidy()
}

func TestFetch_InterruptLeavesNothing(t *testing.T) {
	w := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.fetcher.fetch(ctx, []tool{w.hello}); err == nil {
		t.Error("no error")
	}
	w.isTidy()
}

func TestFetch_MirrorHasTerraformsLayout(t *testing.T) {
	w := newFixture(t)
	local := tool{name: "terraform-provider-local", version: "2.8.0"}
	w.fill(local)
	w.fetch(local)
	rel, err := filepath.Rel(w.top, w.destination(local))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^\.tools/mirror/registry\.terraform\.io/hashicorp/local/2\.8\.0/[a-z0-9]+_[a-z0-9]+/terraform-provider-local_v2\.8\.0(\.exe)?$`)
	if !want.MatchString(filepath.ToSlash(rel)) {
		t.Errorf("the provider is at %s", rel)
	}
	tofus := strings.Replace(w.destination(local), "registry.terraform.io", "registry.opentofu.org", 1)
	if !same(w.destination(local), tofus) {
		t.Errorf("OpenTofu finds no provider at %s", tofus)
	}
	rc, err := os.ReadFile(filepath.Join(w.top, ".tools", "terraform.rc"))
	if err != nil {
		t.Fatal(err)
	}
	mirror, err := json.Marshal(filepath.ToSlash(filepath.Join(w.top, ".tools", "mirror")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"disable_checkpoint = true", "path = " + string(mirror)} {
		if !strings.Contains(string(rc), line) {
			t.Errorf("terraform.rc lacks %q:\n%s", line, rc)
		}
	}
}

func TestPlace_RecognisesACopy(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	if err := os.WriteFile(src, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyProgram(src, dst); err != nil {
		t.Fatal(err)
	}
	if !same(src, dst) {
		t.Error("the copy is not known again")
	}
	if err := os.WriteFile(src, []byte("another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if same(src, dst) {
		t.Error("the copy of an older program is taken for the newer one")
	}
}

func TestCacheDir_IsSetByTheVariable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TERRAPULSE_CACHE", dir)
	if got, err := cacheDir(); err != nil || got != dir {
		t.Errorf("cacheDir() = %s, %v", got, err)
	}
}

// fixture is a checkout, a cache, a machine without installed tools, and one tool, hello, without
// dependencies.
type fixture struct {
	*fetcher
	t     *testing.T
	hello tool
}

func newFixture(t *testing.T) *fixture {
	dir := t.TempDir()
	// Connections to a closed server are refused at once.
	server := httptest.NewServer(nil)
	server.Close()
	w := &fixture{
		t: t,
		fetcher: &fetcher{
			top: filepath.Join(dir, "checkout"), cache: filepath.Join(dir, "cache"),
			releases: server.URL, log: new(bytes.Buffer),
		},
		hello: tool{
			name: "hello", version: "1.2.3", atLeast: "1.15.0",
			product: &product.Product{
				Name:       "hello",
				BinaryName: func() string { return "hello" + exe() },
				GetVersion: func(ctx context.Context, path string) (*version.Version, error) {
					return product.Consul.GetVersion(ctx, path)
				},
			},
			module: "tools/hello", pkg: "example.com/hello",
			ldflags: "-X main.version=1.2.3",
		},
	}
	w.write("tools/hello/go.mod", "module example.com/hello\n\ngo 1.26\n")
	w.write("tools/hello/main.go", "package main\n\nvar version string\n\nfunc main() { show(\"hello \" + version) }\n")
	w.write("tools/hello/print.go", "package main\n\nimport \"os\"\n\nfunc show(s string) { os.Stdout.WriteString(s) }\n")
	return w
}

func (w *fixture) write(name, content string) {
	w.t.Helper()
	file := filepath.Join(w.top, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// install puts a hello with this version on PATH.
func (w *fixture) install(version string) string {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	installed := filepath.Join(dir, "hello"+exe())
	if err := copyProgram(self, installed); err != nil {
		w.t.Fatal(err)
	}
	w.t.Setenv(versionVariable, version)
	w.path = []string{"", dir}
	return installed
}

// fillCache puts a hello with the pinned version into the cache.
func (w *fixture) fillCache() string {
	w.t.Helper()
	return w.fill(w.hello)
}

func (w *fixture) fill(t tool) string {
	w.t.Helper()
	if err := os.MkdirAll(w.cache, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.cached(t), []byte("program "+t.version), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.cached(t)
}

func (w *fixture) fetch(tools ...tool) {
	w.t.Helper()
	if err := w.fetcher.fetch(w.t.Context(), tools); err != nil {
		w.t.Fatal(err)
	}
}

// leadsTo checks that the installed program is this one.
func (w *fixture) leadsTo(want string) {
	w.t.Helper()
	if !same(want, w.destination(w.hello)) {
		at, err := filepath.EvalSymlinks(w.destination(w.hello))
		w.t.Errorf("in place is %s (%v), want %s; it said:\n%s", at, err, want, w.log)
	}
}

func (w *fixture) says(wants ...string) {
	w.t.Helper()
	for _, want := range wants {
		if said := w.log.(*bytes.Buffer).String(); !strings.Contains(said, want) {
			w.t.Errorf("it does not say %q but:\n%s", want, said)
		}
	}
}

// isTidy checks that there are no unfinished files.
func (w *fixture) isTidy() {
	w.t.Helper()
	if strings.Contains(w.tree(), "new-") {
		w.t.Errorf("unfinished work is left:\n%s", w.tree())
	}
}

// tree lists all files with their times.
func (w *fixture) tree() string {
	w.t.Helper()
	var b strings.Builder
	for _, root := range []string{w.cache, filepath.Join(w.top, ".tools")} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if d.IsDir() {
				fmt.Fprintln(&b, path)
			} else {
				fmt.Fprintln(&b, path, info.ModTime())
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return b.String()
}
