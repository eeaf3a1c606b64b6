package terraform

import (
	"crypto/md5"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/config"
)

// hosted simulates the storage of states in HCP Terraform: one
// organization, whose workspaces run Terraform where it is called.
type hosted struct {
	*httptest.Server
	t          *testing.T
	mu         sync.Mutex
	workspaces map[string]*hostedWorkspace // by name
}

type hostedWorkspace struct {
	name   string
	tags   []string
	locked bool
	serial int
	state  []byte
}

func newHosted(t *testing.T) *hosted {
	h := &hosted{t: t, workspaces: map[string]*hostedWorkspace{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/terraform.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"tfe.v2":"/api/v2/","tfe.v2.1":"/api/v2/","tfe.v2.2":"/api/v2/","state.v2":"/api/v2/"}`)
	})
	mux.HandleFunc("GET /api/v2/ping", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("TFP-API-Version", "2.6")
		w.Header().Set("TFP-AppName", "HCP Terraform")
		w.WriteHeader(http.StatusNoContent)
	})
	const org = "/api/v2/organizations/acme"
	mux.HandleFunc("GET "+org, func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, map[string]any{"data": resource("organizations", "acme", map[string]any{"name": "acme"})})
	})
	mux.HandleFunc("GET "+org+"/entitlement-set", func(w http.ResponseWriter, r *http.Request) {
		h.answer(w, map[string]any{"data": resource("entitlement-sets", "org-1", map[string]any{"operations": true, "state-storage": true})})
	})
	mux.HandleFunc("GET "+org+"/workspaces", h.list)
	mux.HandleFunc("POST "+org+"/workspaces", h.create)
	mux.HandleFunc("GET "+org+"/workspaces/{name}", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) { h.answer(w, ws.document()) }))
	mux.HandleFunc("/api/v2/workspaces/{name}", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) { h.answer(w, ws.document()) }))
	mux.HandleFunc("POST /api/v2/workspaces/{name}/relationships/tags", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("GET /api/v2/workspaces/{name}/relationships/tags", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		h.answer(w, map[string]any{"data": []any{}})
	}))
	mux.HandleFunc("POST /api/v2/workspaces/{name}/actions/{act}", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		lock := r.PathValue("act") == "lock"
		if lock && ws.locked {
			w.WriteHeader(http.StatusConflict)
			return
		}
		ws.locked = lock
		h.answer(w, ws.document())
	}))
	mux.HandleFunc("GET /api/v2/workspaces/{name}/current-state-version", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		if ws.state == nil {
			h.missing(w)
			return
		}
		h.answer(w, map[string]any{"data": h.version(ws)})
	}))
	mux.HandleFunc("POST /api/v2/workspaces/{name}/state-versions", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		var body struct {
			Data struct {
				Attributes struct {
					Serial int
					MD5    string
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		ws.serial = body.Data.Attributes.Serial
		w.WriteHeader(http.StatusCreated)
		h.answer(w, map[string]any{"data": h.version(ws)})
	}))
	mux.HandleFunc("GET /api/v2/state-versions/{name}", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		h.answer(w, map[string]any{"data": h.version(ws)})
	}))
	mux.HandleFunc("/state/{name}", h.of(func(w http.ResponseWriter, r *http.Request, ws *hostedWorkspace) {
		if r.Method == http.MethodPut {
			ws.state, _ = io.ReadAll(r.Body)
			return
		}
		w.Header().Set("Content-MD5", fmt.Sprintf("%x", md5.Sum(ws.state)))
		w.Write(ws.state)
	}))
	mux.HandleFunc("PUT /json/{name}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Logf("not spoken here: %s %s", r.Method, r.URL)
		h.missing(w)
	})
	h.Server = httptest.NewTLSServer(mux)
	t.Cleanup(h.Close)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	write(t, trusted, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})))
	t.Setenv("SSL_CERT_FILE", trusted)
	return h
}

// backend is a backend of this kind, remote or cloud, that keeps states here.
func (h *hosted) backend(kind string, workspaces attributes) config.Backend {
	h.t.Helper()
	at, err := url.Parse(h.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	return config.Backend{Type: kind, Body: config.Body{
		Attributes: attributes{"hostname": text(at.Host), "organization": text("acme"), "token": text("the-token")},
		Blocks:     map[string][]config.Body{"workspaces": {{Attributes: workspaces}}},
	}}
}

// of finds the workspace of a path, by its name, which is its id too.
func (h *hosted) of(then func(http.ResponseWriter, *http.Request, *hostedWorkspace)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		ws := h.workspaces[strings.TrimPrefix(strings.TrimPrefix(r.PathValue("name"), "ws-"), "sv-")]
		if ws == nil {
			h.missing(w)
			return
		}
		then(w, r, ws)
	}
}

func (h *hosted) missing(w http.ResponseWriter) {
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"errors":[{"status":"404","title":"not found"}]}`)
}

func (h *hosted) list(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	query := r.URL.Query()
	found := []any{}
	for name, ws := range h.workspaces {
		tagged := query.Get("search[tags]") == "" || slices.Contains(ws.tags, query.Get("search[tags]"))
		if tagged && strings.Contains(name, query.Get("search[name]")) {
			found = append(found, ws.document()["data"])
		}
	}
	h.answer(w, map[string]any{"data": found, "meta": map[string]any{"pagination": map[string]any{
		"current-page": 1, "total-pages": 1, "total-count": len(found)}}})
}

func (h *hosted) create(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var body struct {
		Data struct {
			Attributes    struct{ Name string }
			Relationships struct {
				Tags struct {
					Data []struct{ Attributes struct{ Name string } }
				}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.t.Error(err)
	}
	ws := &hostedWorkspace{name: body.Data.Attributes.Name}
	for _, tag := range body.Data.Relationships.Tags.Data {
		ws.tags = append(ws.tags, tag.Attributes.Name)
	}
	h.workspaces[ws.name] = ws
	w.WriteHeader(http.StatusCreated)
	h.answer(w, ws.document())
}

func resource(kind, id string, attributes map[string]any) map[string]any {
	return map[string]any{"type": kind, "id": id, "attributes": attributes}
}

func (ws *hostedWorkspace) document() map[string]any {
	return map[string]any{"data": resource("workspaces", "ws-"+ws.name, map[string]any{
		"name": ws.name, "locked": ws.locked, "operations": false, "execution-mode": "local", "terraform-version": "latest", "tag-names": ws.tags,
		"permissions": map[string]any{"can-update": true, "can-lock": true, "can-unlock": true, "can-queue-run": true, "can-queue-apply": true, "can-read-settings": true},
	})}
}

func (h *hosted) version(ws *hostedWorkspace) map[string]any {
	return resource("state-versions", "sv-"+ws.name, map[string]any{
		"serial": ws.serial, "status": "finalized",
		"hosted-state-download-url":    h.URL + "/state/" + ws.name,
		"hosted-state-upload-url":      h.URL + "/state/" + ws.name,
		"hosted-json-state-upload-url": h.URL + "/json/" + ws.name,
	})
}

func (h *hosted) answer(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	if err := json.NewEncoder(w).Encode(document); err != nil {
		h.t.Error(err)
	}
}

// names are the workspaces that there are, sorted.
func (h *hosted) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := []string{}
	for name, ws := range h.workspaces {
		if ws.locked {
			h.t.Errorf("workspace %s is locked", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
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
