package terraformcli

import (
	"net/url"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// hosted keeps states in HCP Terraform. Its workspaces run Terraform where it is called.
type hosted struct {
	*hcptest.Server
	t *testing.T
}

func newHosted(t *testing.T) hosted {
	h := hosted{hcptest.New(t), t}
	h.SetOrganization(map[string]any{"default-execution-mode": "local"})
	t.Setenv("SSL_CERT_FILE", h.CA)
	return h
}

// backend is a backend of this kind, remote or cloud, that keeps states here.
func (h hosted) backend(kind string, workspaces attributes) config.Backend {
	h.t.Helper()
	at, err := url.Parse(h.SecureURL)
	if err != nil {
		h.t.Fatal(err)
	}
	return config.Backend{Type: kind, Body: config.Body{
		Attributes: attributes{"hostname": text(at.Host), "organization": text(h.Organization), "token": text(h.Token)},
		Blocks:     map[string][]config.Body{"workspaces": {{Attributes: workspaces}}},
	}}
}

// names are the workspaces that there are, sorted.
func (h hosted) names() []string {
	for _, name := range h.Workspaces() {
		if by := h.Workspace(name).LockedBy; by != "" {
			h.t.Errorf("workspace %s is locked by %s", name, by)
		}
	}
	return h.Workspaces()
}

func TestCloud_StatesAreInHCPTerraform(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, c := range []struct {
		name, kind string
		workspaces attributes
		want       []string // workspaces in the end
	}{
		{"remote with a prefix", "remote", attributes{"prefix": text("net-")}, []string{"net-api", "net-db", "net-web"}},
		{"remote with names", "remote", attributes{"name": text("{task}-state")}, []string{"api-state", "db-state", "web-state"}},
		{"cloud with names", "cloud", attributes{"name": text("{task}-state")}, []string{"api-state", "db-state", "web-state"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHosted(t)
			f := newFixture(t, dataModule)
			f.cfg = &config.Config{
				Tasks:     []config.Task{{Name: "web"}, {Name: "db"}, {Name: "api"}},
				Terraform: config.Terraform{Backend: h.backend(c.kind, c.workspaces)},
			}
			for _, task := range []string{"web", "db", "api"} {
				f.task = &config.Task{Name: task, Module: f.module}
				f.startOver()
			}
			if got := h.names(); !slices.Equal(got, c.want) {
				t.Errorf("there are the workspaces %q", got)
			}
		})
	}
}

func TestMove_BetweenAllKindsOfBackends(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server, h := newStateServer(t), newHosted(t)
	local := func(dir string) config.Backend {
		return config.Backend{Type: "local", Body: config.Body{Attributes: attributes{"workspace_dir": text(dir)}}}
	}
	f := newFixture(t, dataModule)
	f.keepInS3()
	f.init(f.open(), true)
	f.apply(f.open())
	bucket := f.cfg.Terraform.Backend
	for _, b := range []config.Backend{
		{Type: "http", Body: config.Body{Attributes: attributes{"address": text(server.URL + "/state")}}},
		local("elsewhere"),
		bucket,
		h.backend("remote", attributes{"prefix": text("net-")}),
		local("elsewhere"),
		h.backend("remote", attributes{"name": text("named")}),
		local(t.TempDir()),
		bucket,
		h.backend("cloud", attributes{"name": text("of-cloud")}),
		local("elsewhere"),
	} {
		f.cfg.Terraform.Backend = b
		f.render("api")
		f.init(f.open(), true)
		if s := f.apply(f.open()); s.Any() {
			t.Errorf("on its way to %s the state was lost: %+v", b.Type, s)
		}
		f.init(f.open(), false)
		f.render("api", b.Type) // so that the state is newer than where it was
		f.apply(f.open())
		f.render("api")
		f.apply(f.open())
	}
}
