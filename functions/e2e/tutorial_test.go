//go:build linux

package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
	"github.com/terrapulse/terrapulse/internal/testtools/tutorial"
)

// TestTutorial follows docs/tutorials/aws.md from its first step after the deployment: the stack
// is there, and paused, as a new one.
func TestTutorial(t *testing.T) {
	t.Parallel()
	d := deploy(t, options{name: "terrapulse", paused: true})
	ctx, stop := context.WithCancel(t.Context())
	ticked := make(chan struct{})
	go func() { // the schedule, and the bucket's event
		defer close(ticked)
		for ctx.Err() == nil {
			for _, payload := range []string{d.pushedEvent(), `{"mode":"reconcile"}`} {
				_, _ = d.lambda.invoke(ctx, d.reconcile, []byte(payload)) // a failure shows in what the page does not show
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	defer func() { stop(); <-ticked }()

	page, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "tutorials", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{"CONSUL_HTTP_ADDR": d.consul.Addr(), "AWS_MAX_ATTEMPTS": "1"}
	maps.Copy(variables, d.serveURL(ann).env)
	maps.Copy(variables, ann.environ())
	env := d.shell("", variables).Env
	tutorial.Reader{
		Dir: filepath.Join(d.dir, "files"), Env: append(env, "PATH="+strings.Join([]string{filepath.Dir(built(t, "terrapulse")), filepath.Dir(testtools.Consul(t)), os.Getenv("PATH")}, ":")),
		Replace: []tutorial.Replacement{{Page: "BUCKET", Here: d.bucket}, {Page: "laptop", Here: "consul-server"}},
	}.Follow(t, string(page))
}

// The steps that the test of the tutorial leaves out are these.
func TestTutorial_StepsThatNeedAnAccount(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testtools.Root(t), "docs", "tutorials", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%q, %v", pages, err)
	}
	var needed []string
	for _, file := range pages {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := tutorial.Parse(string(page))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, step := range steps {
			if step.Special == tutorial.NeedsAccount {
				first, _, _ := strings.Cut(step.Text, "\n")
				needed = append(needed, filepath.Base(file)+": "+first)
			}
		}
	}
	want := []string{
		"aws.md: git clone https://github.com/terrapulse/terrapulse.git",
		"aws.md: cd terrapulse",
		`aws.md: make build && export PATH="$PWD/bin:$PATH"`,
		"aws.md: cp samconfig.example.toml samconfig.toml",
		"aws.md: sam build",
		`aws.md: sam deploy --stack-name terrapulse --parameter-overrides \`,
		"aws.md: sam delete --stack-name terrapulse",
	}
	if !slices.Equal(needed, want) {
		t.Errorf("these steps are not followed:\n%s\nwant\n%s", strings.Join(needed, "\n"), strings.Join(want, "\n"))
	}
}
