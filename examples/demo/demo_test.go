package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestDemo_ShowsChangesAndAHoldAndLeavesNothing(t *testing.T) {
	d, out := newDemo(t)
	start := time.Now()
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("the demo took %s", time.Since(start))

	story := out.String()
	if !strings.Contains(story, "in a browser, too: "+d.pages) || strings.Contains(story, "opened") {
		t.Error("the address of the pages is not printed, or they are opened")
	}
	for _, want := range []string{
		`1\. A new instance: [^\n]+\n  Applied [0-9.]+ s after the change:\n(.*\n)*  \+ \|   server web-3 10\.0\.0\.3:8080 check\n`,
		`2\. A failing check: [^\n]+\n  Applied [0-9.]+ s after the change:\n(.*\n)*  - \|   server web-2 10\.0\.0\.2:8080 check\n`,
		`3\. A key is edited: [^\n]+\n  Applied [0-9.]+ s after the change:\n(.*\n)*  - \| <h1>All systems work</h1>\n  \+ \| <h1>We are back at noon</h1>\n`,
		`4\. Every instance vanishes [^\n]+\n  Nothing was applied\.(.*\n)*      - 2 of 2 service instances are gone: [^\n]+ on_empty is "hold"\n(.*\n)*    Approved\.(.*\n)*  - \|   server web-3 `,
		`5\. A canary: (.*\n)*    applied, and not verified since [^\n]*servers that do not answer: [^\n]*:9999 check\n    waits for web-muc: [^\n]+\n(.*\n)*  Verified in Munich and at rest everywhere after [0-9.]+ s\.\n`,
	} {
		if !regexp.MustCompile(want).MatchString(story) {
			t.Errorf("no match for %s", want)
		}
	}
	if strings.Contains(story, "\x1b") {
		t.Error("colour, though the output is no terminal")
	}
	if t.Failed() {
		t.Log(story)
	}
	leavesNothing(t, d)
}

func TestDemo_KeepFollowsChangesUntilAnInterrupt(t *testing.T) {
	d, out := newDemo(t)
	d.keep, d.colored = true, true
	opened := make(chan string, 1)
	d.browse = func(address string) bool { opened <- address; return true }
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()

	await(t, out, ended, regexp.MustCompile("It is opened in yours"))
	if res, err := http.Get(<-opened); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the pages: %v, %v", res, err)
	} else if res.Body.Close(); !strings.Contains(out.String(), res.Request.URL.Host+"/ui/") {
		t.Errorf("the address %s is not printed", res.Request.URL)
	}

	suggested := regexp.MustCompile(`curl -X PUT -d "([^"]+)" (http://\S+)`)
	await(t, out, ended, suggested)
	curl := suggested.FindStringSubmatch(out.String())
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, curl[2], strings.NewReader(curl[1]))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	await(t, out, ended, regexp.MustCompile(`\+ \| <h1>`+curl[1]+`</h1>`))
	if !strings.Contains(out.String(), green) {
		t.Error("no colour, though the output is a terminal")
	}

	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	leavesNothing(t, d)
}

func TestDemo_InterruptLeavesNothing(t *testing.T) {
	d, out := newDemo(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	await(t, out, ended, regexp.MustCompile(`Starting Terrapulse`))
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	leavesNothing(t, d)
}

func TestDemo_ReportsAnUnexpectedExit(t *testing.T) {
	d, _ := newDemo(t)
	d.terrapulse = d.tool("terraform") // knows no command start
	err := d.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "terrapulse: it ended by itself") || !strings.Contains(err.Error(), `no command named "start"`) {
		t.Errorf("the error is %v", err)
	}
	leavesNothing(t, d)
}

func TestDemo_ReportsAMissingProgram(t *testing.T) {
	d := &demo{top: t.TempDir(), out: new(testtools.Output)}
	if err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "run `make demo` at the top of the checkout") {
		t.Errorf("the error is %v", err)
	}
}

func TestDiff_KeepsAsManyLinesAsPossible(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"", "a\nb\n", "+a+b"},
		{"a\nb\n", "", "-a-b"},
		{"a\nb\nc\n", "a\nc\nd\n", " a-b c+d"},
		{"a\nb\n", "b\na\n", "-a b+a"},
		{"a", "b", "-a+b"},
	} {
		var got strings.Builder
		for _, l := range diff(lines(c.from), lines(c.to)) {
			got.WriteString(l)
		}
		if got.String() != c.want {
			t.Errorf("diff of %q and %q is %q, want %q", c.from, c.to, got.String(), c.want)
		}
	}
}

// newDemo returns a demo of this checkout and its output.
func newDemo(t *testing.T) (*demo, *testtools.Output) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Terraform several times")
	}
	out := new(testtools.Output)
	// All temporary files are in a folder of the test.
	t.Setenv("TMPDIR", t.TempDir())
	testtools.Consul(t)
	return &demo{top: testtools.Root(t), terrapulse: build(t), out: out}, out
}

// build builds terrapulse once for all tests.
func build(t *testing.T) string {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

var built = sync.OnceValues(func() (string, error) {
	program := filepath.Join(workDir, "terrapulse"+exe())
	return program, testtools.Build(program, "cmd/terrapulse")
})

var workDir string

func TestMain(m *testing.M) {
	var err error
	if workDir, err = os.MkdirTemp("", "terrapulse-demo-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(workDir) // the system clears its temporary folder anyway
	os.Exit(code)
}

// leavesNothing checks that neither files nor processes are left.
func leavesNothing(t *testing.T, d *demo) {
	t.Helper()
	if _, err := os.Stat(d.dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", d.dir, err)
	}
	select {
	case <-d.daemon.ended:
	default:
		t.Error("terrapulse is left running")
	}
	if conn, err := net.Dial("tcp", d.consul.addr); err == nil {
		conn.Close()
		t.Error("consul is left running")
	}
}

// await waits until the output shows a match.
func await(t *testing.T, out *testtools.Output, ended <-chan error, want *regexp.Regexp) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !want.MatchString(out.String()) {
		select {
		case err := <-ended:
			t.Fatalf("the demo ended: %v\n%s", err, out)
		case <-deadline:
			t.Fatalf("no match for %s in\n%s", want, out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
