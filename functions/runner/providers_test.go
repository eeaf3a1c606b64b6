package main

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// needsTime is a module that needs a provider.
const needsTime = "resource \"time_static\" \"now\" {}\n"

// throughRegistry returns the environment in which containers reach the registry as the public one.
func throughRegistry(t testing.TB, registry *registrytest.Registry) []string {
	t.Helper()
	authority := testtools.NewAuthority(t)
	p := startProxy(t, authority, map[string]http.Handler{"registry.terraform.io": registry, "registry.opentofu.org": registry})
	return []string{"TF_CLI_CONFIG_FILE=", "HTTPS_PROXY=" + p.server.URL, "SSL_CERT_FILE=" + authority.CA}
}

// All tasks of all containers share one download of a provider, and all tasks of a container one
// folder.
func TestProgram_SharesProviders(t *testing.T) {
	registry := registrytest.Start(t)
	p := registry.Add("time", 0)
	s := newStack(t, s3Backend("S3"), needsTime, needsTime, needsTime)
	environment := throughRegistry(t, registry)
	for _, launch := range []string{"l1", "l2"} {
		s.launch(launch)
		work := filepath.Join(t.TempDir(), "work")
		var out testtools.Output
		cmd := s.container(launch, &out, environment...)
		cmd.Env = append(cmd.Env, "TERRAPULSE_WORK="+work)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		for _, task := range []string{"t0", "t1", "t2"} {
			if run := s.run(launch, task); run.State != state.RunSucceeded {
				t.Errorf("%s: %+v\n%s", task, run, &out)
			}
			programs, err := filepath.Glob(filepath.Join(work, "sync-tasks", task, ".terraform", "providers", "*", "*", "*", "*", runtime.GOOS+"_"+runtime.GOARCH))
			if err != nil || len(programs) != 1 {
				t.Fatalf("%s: %v, %v", task, programs, err)
			}
			if to, err := os.Readlink(programs[0]); err != nil || !strings.HasPrefix(to, filepath.Join(work, "providers")) {
				t.Errorf("%s has its own provider: %s, %v", task, to, err)
			}
		}
		if want := map[string]string{"l1": "provider downloaded", "l2": "provider read from the bucket"}[launch]; strings.Count(out.String(), want) != 1 {
			t.Errorf("the log does not say once: %s\n%s", want, &out)
		}
		if left, err := filepath.Glob(filepath.Join(work, "tmp", "provider-*")); err != nil || len(left) > 0 {
			t.Errorf("the work volume still has %v, %v", left, err)
		}
	}
	if n := registry.Requests(".zip"); n != 1 {
		t.Errorf("%d downloads", n)
	}
	if _, err := s.s3.HeadObject("terrapulse", "bundle/providers/"+p.Sum); err != nil {
		t.Errorf("the provider is not in the bucket: %v", err)
	}
}
