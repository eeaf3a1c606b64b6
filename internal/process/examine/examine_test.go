package examine

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestClock_IsWrongOnlyIfItCannotBeRightWithTheErrorOfTheReading(t *testing.T) {
	const within = 600 * time.Millisecond
	for _, test := range []struct {
		ahead time.Duration
		want  string
		wrong bool
	}{
		{0, "the same as Consul's", false},
		{-500 * time.Millisecond, "the same as Consul's", false},
		{3 * time.Second, "3s ahead", false},
		{5500 * time.Millisecond, "ahead", false}, // NTP's 5 seconds are within the error
		{5700 * time.Millisecond, "6s ahead", true},
		{-2 * time.Hour, "2h0m0s behind", true},
	} {
		found, err := clockFound(test.ahead, within)
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, test.want) || (err != nil) != test.wrong {
			t.Errorf("a clock that is %s ahead: %q, wrong %v", test.ahead, found, err != nil)
		}
	}
}

func TestCluster_NamesWhatDiffersAndWhoIsMissing(t *testing.T) {
	is := func(id, version, terraform string, silent time.Duration) member {
		return member{state.Instance{ID: id, Owner: id, Version: version, Terraform: terraform}, silent}
	}
	uses := func(id, module string) member {
		return member{state.Instance{ID: id, Owner: id, Version: "v1.2.0", Terraform: "t", Parts: map[string]string{"module": module}}, 0}
	}
	for name, test := range map[string]struct {
		all    []member
		leader string
		want   string
		wrong  bool
	}{
		"nobody has started":       {nil, "", "none runs", false},
		"all is well":              {[]member{is("a", "v1.2.0", "terraform 1.11.4", 0), is("b", "v1.2.0", "terraform 1.11.4", 0)}, "b", "b (v1.2.0, terraform 1.11.4) leads", false},
		"an upgrade stopped":       {[]member{is("a", "v1.2.0", "t", 0), is("b", "v1.3.0", "t", 0)}, "a", "the versions differ", true},
		"another Terraform":        {[]member{is("a", "v1.2.0", "t 1", 0), is("b", "v1.2.0", "t 2", 0)}, "a", "the versions of Terraform differ", true},
		"another module":           {[]member{uses("a", "1"), uses("b", "2")}, "a", "b gets no runs, because its files differ from those of a in: module", true},
		"an old one has no parts":  {[]member{is("a", "v1.2.0", "t", 0), uses("b", "1")}, "b", "b (v1.2.0, t) leads", false},
		"one died":                 {[]member{is("a", "v1.2.0", "t", 0), is("b", "v1.2.0", "t", time.Minute)}, "a", "b is silent for 1m0s", true},
		"an old one does not live": {[]member{is("a", "v1.3.0", "t", 0), is("b", "v1.2.0", "t", time.Minute)}, "a", "b is silent", true},
		"nobody leads":             {[]member{is("a", "v1.2.0", "t", 0)}, "", "none leads", true},
		"a dead one leads":         {[]member{is("a", "v1.2.0", "t", 0), is("b", "v1.2.0", "t", time.Minute)}, "b", "none leads", true},
	} {
		found, err := clusterFound(test.all, test.leader)
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, test.want) || (err != nil) != test.wrong {
			t.Errorf("%s: %q, wrong %v", name, found, err != nil)
		}
		if name == "an old one does not live" && strings.Contains(found, "versions differ") {
			t.Errorf("%s: %q", name, found)
		}
	}
}

func TestPort_TellsAnInstanceFromAnotherProgram(t *testing.T) {
	answer := `{"request_id":"a1"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable) // it is unhealthy, and is one all the same
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	e := &examination{cfg: &config.Config{Port: server.Listener.Addr().(*net.TCPAddr).Port}}
	e.cfg.API.BindAddress = "127.0.0.1"
	if found, err := e.checkPort(t.Context()); err != nil || !strings.Contains(found, "an instance of Terrapulse") {
		t.Errorf("of an instance: %q, %v", found, err)
	}
	answer = "<html>"
	if _, err := e.checkPort(t.Context()); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("of another program: %v", err)
	}
	e.cfg.Port = testtools.FreePort(t)
	if found, err := e.checkPort(t.Context()); err != nil || !strings.Contains(found, "is free") {
		t.Errorf("of nobody: %q, %v", found, err)
	}
	if l, err := net.Listen("tcp", server.Listener.Addr().String()); err == nil {
		l.Close()
		t.Error("the check holds the port")
	}
}

func TestRegistries_AreThoseOfTheProvidersAndTheProgram(t *testing.T) {
	got := registries([]string{"hashicorp/local", "registry.example.com/net/fw", "hashicorp/time"}, "")
	if strings.Join(got, " ") != "registry.example.com registry.terraform.io" {
		t.Errorf("got %v", got)
	}
	if got := registries([]string{"hashicorp/local"}, config.EngineTofu); got[0] != "registry.opentofu.org" {
		t.Errorf("got %v", got)
	}
}

func TestConsul_TheOldestTestedVersionIsTheDocumentedOne(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"| " + testedConsul[1:] + " | passes", "High availability needs " + strings.TrimSuffix(clusterConsul[1:], ".0")} {
		if !strings.Contains(string(page), version) {
			t.Errorf("docs/operate.md does not say %q", version)
		}
	}
}

func TestPrograms_AreCheckedWhereRunsAreCarriedOut(t *testing.T) {
	names := func(cfg *config.Config) (all string) {
		for _, c := range (&examination{cfg: cfg}).programChecks() {
			all += c.Name + " "
		}
		return all
	}
	if got := names(&config.Config{}); got != "terraform providers " {
		t.Errorf("on a machine: %s", got)
	}
	if got := names(&config.Config{Nomad: &config.Nomad{}}); got != "nomad " {
		t.Errorf("with runs as Nomad jobs: %s", got)
	}
}

func TestProviders_NeedABuildForThisMachine(t *testing.T) {
	platforms := ""
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/terraform.json" {
			fmt.Fprint(w, `{"providers.v1": "/v1/providers/"}`)
			return
		}
		fmt.Fprintf(w, `{"versions": [{"version": "1.0.0", "platforms": [%s]}]}`, platforms)
	}))
	defer registry.Close()
	before := http.DefaultClient
	http.DefaultClient = registry.Client()
	defer func() { http.DefaultClient = before }()
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	module := t.TempDir()
	source := strings.TrimPrefix(registry.URL, "https://") + "/own/firewall"
	if err := os.WriteFile(filepath.Join(module, "main.tf"), fmt.Appendf(nil, "terraform {\n  required_providers {\n    firewall = { source = %q }\n  }\n}\n", source), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &examination{cfg: &config.Config{WorkingDir: t.TempDir(), Tasks: []config.Task{{Name: "a", Module: module}}}}
	for platform, want := range map[string]string{runtime.GOOS + "/" + runtime.GOARCH: "the next run downloads them", "plan9/arm": "has no build for " + runtime.GOOS + "_" + runtime.GOARCH} {
		system, arch, _ := strings.Cut(platform, "/")
		platforms = fmt.Sprintf(`{"os": %q, "arch": %q}`, system, arch)
		found, err := e.checkProviders(t.Context())
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, want) || (err != nil) != (system == "plan9") {
			t.Errorf("a build for %s: %q, %v", platform, found, err)
		}
	}
}

func TestReachable_IsARegistryThatAnswers(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, "{}")
	}))
	before := http.DefaultClient
	http.DefaultClient = server.Client()
	defer func() { http.DefaultClient = before }()
	host := strings.TrimPrefix(server.URL, "https://")
	if err := reachable(t.Context(), host); err != nil {
		t.Error(err)
	}
	status = http.StatusForbidden // of a proxy
	if err := reachable(t.Context(), host); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("of a proxy that denies it: %v", err)
	}
	server.Close()
	if err := reachable(t.Context(), host); err == nil {
		t.Error("a server that is gone is reachable")
	}
}
