package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestTools_TestsRunThePinnedVersion(t *testing.T) {
	for file, lines := range map[string][]string{
		"tools/dynamodb/pom.xml":              {`<version>3\.0\.0</version>`},
		"tools/aws/requirements.txt":          {`aws-sam-cli==1\.170\.0`, `cfn-lint==1\.58\.0`, `moto==5\.2\.5`, `aws-sam-translator==1\.115\.0`},
		"tools/schemathesis/requirements.txt": {`schemathesis==4\.32\.5`},
		"tools/parliament/requirements.txt":   {`parliament==1\.6\.4 \\`},
		"tools/checkov/requirements.txt":      {`checkov==3\.3\.30`, `cloudsplaining==0\.7\.0`},
		"tools/site/requirements.txt":         {`mkdocs-material==9\.8\.1 \\`},
		"tools/pytfe/requirements.txt":        {`pytfe==1\.5\.0`},
		"tools/go-tfe/go.mod":                 {`require github\.com/hashicorp/go-tfe v1\.111\.2`},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^\s*` + line + `$`).Match(text) {
				t.Errorf("%s has no line %s", file, line)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "tools", "aws", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !strings.Contains(line, "==") {
			t.Errorf("requirements.txt leaves the version of %s open", line)
		}
	}
}

func TestFetch_RequiresJavaAndMaven(t *testing.T) {
	w := newShelf(t)
	w.lacks(w.library, "no java on PATH", "Java 17 or newer")
	w.program("java", "")
	w.lacks(w.library, "no mvn on PATH", "install Maven")
}

func TestFetch_RequiresNode(t *testing.T) {
	w := newShelf(t)
	w.write("tools/modules/packages.json", "[]")
	w.lacks(tool{name: "modules", pin: "tools/modules/packages.json", fill: (*fetcher).nodeModules, proof: "node_modules"}, "no node on PATH", "Node.js 20 or newer")
}

func TestFetch_RequiresPython(t *testing.T) {
	w := newShelf(t)
	w.lacks(w.environment, "no python3 on PATH", "Python 3.11 or newer")
	w.program("python3", `test "$1" != -c || { echo "Python 3.11 or newer is needed, this is 3.9" >&2; exit 1; }`)
	w.lacks(w.environment, "this is 3.9")
	w.program("python3", `test "$1" = -c || { echo "No module named venv" >&2; exit 1; }`)
	w.lacks(w.environment, "No module named venv", "python3-venv")
}

func TestFolder_IsCreatedOncePerPin(t *testing.T) {
	w := newShelf(t)
	w.installed()
	w.fetch(w.library)
	if got := w.read(".tools/library/it.jar"); got != "1" {
		t.Errorf("it.jar holds %q", got)
	}
	before := w.tree()
	w.log.(*bytes.Buffer).Reset()
	w.fetch(w.library)
	if said := w.log.(*bytes.Buffer).String(); said != "" || w.tree() != before {
		t.Errorf("a second run says %q and leaves\n%s\nwant\n%s", said, w.tree(), before)
	}
	w.write("tools/library/pom.xml", "2")
	w.fetch(w.library)
	if got := w.read(".tools/library/it.jar"); got != "2" {
		t.Errorf("after another version was pinned it.jar holds %q", got)
	}
	w.isTidy()
}

func TestFolder_FailureLeavesNothing(t *testing.T) {
	w := newShelf(t)
	w.program("java", "")
	for script, want := range map[string]string{
		`echo "no such artifact"; exit 1`: "no such artifact",
		`mkdir -p "$last"`:                "the download is incomplete",
	} {
		w.program("mvn", last+script)
		w.lacks(w.library, want)
		if strings.Contains(w.tree(), "library") {
			t.Errorf("it is kept:\n%s", w.tree())
		}
	}
}

func TestFolder_Interrupt(t *testing.T) {
	w := newShelf(t)
	w.installed()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.fetcher.fetch(ctx, []tool{w.library}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("the error is %v", err)
	}
	w.isTidy()
}

func TestFolder_TwoRunsAtOnce(t *testing.T) {
	w := newShelf(t)
	w.installed()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			other := *w.fetcher
			other.log = new(bytes.Buffer)
			if err := other.fetch(t.Context(), []tool{w.library}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.read(".tools/library/it.jar"); got != "1" {
		t.Errorf("it.jar holds %q", got)
	}
	w.isTidy()
}

func TestFolder_ScriptsAndProgramsRun(t *testing.T) {
	w := newShelf(t)
	w.installed()
	w.fetch(w.environment)
	out, err := exec.Command(filepath.Join(w.top, ".tools", "bin", "hello"), "a b").CombinedOutput()
	if err != nil || string(out) != "hello a b\n" {
		t.Errorf("hello says %q, %v", out, err)
	}
	if got := w.read(".tools/bin/emulator"); got != "binary" {
		t.Errorf("the emulator is %q", got)
	}
}

func TestFolder_IsReplacedIfItsPythonIsMissing(t *testing.T) {
	w := newShelf(t)
	w.installed()
	w.fetch(w.environment)
	cached, err := w.cachedFolder(w.environment)
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(cached, "bin", "python")
	if err := os.Remove(python); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "gone"), python); err != nil {
		t.Fatal(err)
	}
	w.fetch(w.environment)
	if out, err := exec.Command(filepath.Join(w.top, ".tools", "bin", "hello"), "again").CombinedOutput(); err != nil {
		t.Errorf("hello: %v %s", err, out)
	}
}

// shelf is a fixture with two tools that are folders, and with scripts that simulate Java, Maven
// and Python. The name of its cache needs quoting in a shell.
type shelf struct {
	*fixture
	library, environment tool
}

func newShelf(t *testing.T) *shelf {
	if runtime.GOOS == "windows" {
		t.Skip("tools that are folders are not made on Windows")
	}
	w := &shelf{
		fixture: newFixture(t),
		library: tool{name: "library", pin: "tools/library/pom.xml", fill: (*fetcher).maven, proof: "it.jar"},
		environment: tool{name: "environment", pin: "tools/environment/requirements.txt",
			fill: (*fetcher).virtualEnvironment, proof: "bin/python",
			scripts: map[string]string{"hello": "bin/hello"}, program: "lib/python*/emulator-x", as: "emulator"},
	}
	w.cache = filepath.Join(t.TempDir(), "it's a cache")
	w.path = []string{"", t.TempDir()}
	w.write("tools/library/pom.xml", "1")
	w.write("tools/environment/requirements.txt", "hello==1")
	return w
}

// program puts a shell script on PATH.
func (w *shelf) program(name, script string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.path[1], name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// last sets a variable to the folder that Maven must copy to.
const last = "for last; do :; done; last=${last#-DoutputDirectory=}; "

// installed puts simulated Java, Maven and Python programs on PATH.
func (w *shelf) installed() {
	w.program("java", "")
	w.program("mvn", last+`mkdir -p "$last"; cp "$4" "$last/it.jar"`)
	w.program("python3", fmt.Sprintf(`
test "$1 $2" = "-m venv" || exit 0
mkdir -p "$3/bin" "$3/lib/python3.11"
printf binary > "$3/lib/python3.11/emulator-x"
printf 'echo hello "$@"\n' > "$3/bin/hello"
ln -s %s "$3/bin/python"
`, filepath.Join(w.path[1], "inner")))
	// The environment's own Python: runs a script, or is pip.
	w.program("inner", `test "$1" = -m || exec /bin/sh "$@"`)
}

func (w *shelf) lacks(t tool, wants ...string) {
	w.t.Helper()
	err := w.fetcher.fetch(w.t.Context(), []tool{t})
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			w.t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	w.isTidy()
}

func (w *shelf) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.top, filepath.FromSlash(name)))
	if err != nil {
		w.t.Error(err)
	}
	return string(text)
}
