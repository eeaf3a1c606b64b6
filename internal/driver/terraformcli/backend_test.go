package terraformcli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

type attributes = map[string]cty.Value

var (
	text   = cty.StringVal
	object = cty.ObjectVal
	yes    = cty.True
)

// stateServer speaks the protocol of Terraform's http backend.
type stateServer struct {
	*httptest.Server
	mu     sync.Mutex
	states map[string]string // by path
	locked map[string]string
	refuse func() bool // whether a state is not taken; nil for never
}

func newStateServer(t *testing.T) *stateServer {
	s := &stateServer{states: map[string]string{}, locked: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *stateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := r.URL.Path
	switch r.Method {
	case http.MethodGet:
		if s.states[path] == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, s.states[path])
	case http.MethodPost:
		if s.refuse != nil && s.refuse() {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		s.states[path] = string(body)
	case "LOCK":
		if holder := s.locked[path]; holder != "" {
			w.WriteHeader(http.StatusLocked)
			io.WriteString(w, holder)
			return
		}
		s.locked[path] = string(body)
	case "UNLOCK":
		delete(s.locked, path)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// kept returns the paths of the states, and how many are locked.
func (s *stateServer) kept() (paths []string, locked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.states {
		paths = append(paths, path)
	}
	return paths, len(s.locked)
}

// useBackend has the fixture's task use the backend that its configuration says,
// with the task's own name in it, in a directory of its own.
func (f *fixture) useBackend() {
	f.t.Helper()
	backend, err := rootmodule.Backend(f.cfg, f.task)
	if err != nil {
		f.t.Fatal(err)
	}
	f.dir = filepath.Join(f.t.TempDir(), f.task.Name)
	f.render("api")
	f.cfg = &config.Config{Consul: f.cfg.Consul, Terraform: config.Terraform{Backend: backend}}
}

// startOver applies the task in a new directory, inspects it there, and expects
// that its state is found again from another one.
func (f *fixture) startOver() {
	f.t.Helper()
	cfg := f.cfg
	f.useBackend()
	if s, err := f.bin.Inspect(f.t.Context(), f.dir, func(dir string) error { return f.renderTo(dir, "api") }, f.options()); err != nil || s.Summary.Add != 1 {
		f.t.Errorf("before there is a state: %+v, %v\n%s", s, err, f.log.String())
	}
	f.init(f.open(), true)
	if s := f.apply(f.open()); s.Add != 1 {
		f.t.Errorf("the first apply did %+v", s)
	}
	f.cfg = cfg
	f.useBackend()
	if s, err := f.bin.Inspect(f.t.Context(), f.dir, func(dir string) error { return f.renderTo(dir, "api") }, f.options()); err != nil || s.Changes {
		f.t.Errorf("with a state: %+v, %v\n%s", s, err, f.log.String())
	}
	f.init(f.open(), true)
	if s := f.apply(f.open()); s.Any() {
		f.t.Errorf("from another directory: %+v", s)
	}
	f.cfg = cfg
}

const dataModule = `
variable "services" {}
resource "terraform_data" "names" {
  input = join(",", sort([for s in var.services : s.name]))
}
`

func TestBackend_HTTPAddressContainsTaskName(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server := newStateServer(t)
	f := newFixture(t, dataModule)
	f.cfg = &config.Config{
		Tasks: []config.Task{{Name: "web"}, {Name: "db"}},
		Terraform: config.Terraform{Backend: config.Backend{Type: "http", Body: config.Body{Attributes: attributes{
			"address":      text(server.URL + "/states/{task}"),
			"lock_address": text(server.URL + "/states/{task}/lock"), "unlock_address": text(server.URL + "/states/{task}/lock"),
		}}}},
	}
	for _, task := range []string{"web", "db"} {
		f.task = &config.Task{Name: task, Module: f.module}
		f.startOver()
	}
	paths, locked := server.kept()
	if len(paths) != 2 || locked != 0 || !strings.Contains(strings.Join(paths, " "), "/states/web") || !strings.Contains(strings.Join(paths, " "), "/states/db") {
		t.Errorf("states %v, %d locked", paths, locked)
	}
}

func TestBackend_S3StatesHaveThePathsOfCTS(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := s3mem.New()
	if err := store.CreateBucket("states"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(store).Server())
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "s3", Body: config.Body{Attributes: attributes{
		"bucket": text("states"), "key": text("cts/terraform.tfstate"), "region": text("eu-central-1"),
		"endpoints":                   object(attributes{"s3": text(server.URL)}),
		"use_path_style":              yes,
		"skip_credentials_validation": yes, "skip_metadata_api_check": yes, "skip_requesting_account_id": yes, "skip_region_validation": yes,
		"skip_s3_checksum": yes,
	}}}
	f.startOver()
	objects, err := store.ListBucket("states", nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Contents) != 1 || objects.Contents[0].Key != "env:/web/cts/terraform.tfstate" {
		t.Errorf("the bucket holds %+v", objects.Contents)
	}
}

func TestBackend_LocalWorkspaceDir(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "local", Body: config.Body{Attributes: attributes{
		"workspace_dir": text(dir), "path": text("not/used.tfstate")}}}
	f.startOver()
	if _, err := os.Stat(filepath.Join(dir, "web", "terraform.tfstate")); err != nil {
		t.Error(err)
	}
}

func TestBackend_UnsupportedTypeIsAnErrorWithAdvice(t *testing.T) {
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "manta"} // until 1.2
	f.render("api")
	_, err := f.open().Init(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"manta"`) || !strings.Contains(err.Error(), "name another as backend") {
		t.Errorf("got %v", err)
	}
}
