package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/gitssh/gitsshtest"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// private is the text of a module that only hosts with a login have.
const private = "resource \"terraform_data\" \"private\" {}\n"

// repository creates a git repository with the module, DIR/web.git.
func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	work, bare := filepath.Join(dir, "work"), filepath.Join(dir, "web.git")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "main.tf"), []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", work}, {"-C", work, "add", "."},
		{"-C", work, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "Add a module"},
		{"clone", "--quiet", "--bare", work, bare},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// gitHost serves the repositories in dir over HTTP to a user with a password.
func gitHost(t *testing.T, dir, user, password string) http.Handler {
	t.Helper()
	folder, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("needs git")
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(folder)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + user}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
}

// registry serves version 1.0.0 of the module own/web/test to the holder of a token.
func registry(token string) http.Handler {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	_ = files.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(private))})
	_, _ = files.Write([]byte(private))
	_ = files.Close()
	_ = zipped.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/terraform.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"modules.v1": "/modules/"}`)
	})
	mux.HandleFunc("GET /archive.tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) })
	mux.HandleFunc("GET /modules/own/web/test/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "log in", http.StatusUnauthorized)
		case r.PathValue("rest") == "versions":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"modules": [{"versions": [{"version": "1.0.0"}]}]}`)
		default:
			w.Header().Set("X-Terraform-Get", "/archive.tar.gz")
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

// proxy is an HTTPS proxy, the only way to hosts, which exist nowhere else.
type proxy struct {
	server *httptest.Server
	hosts  map[string]string // addresses by host

	mu   sync.Mutex
	used map[string]bool
}

// startProxy serves each host behind a proxy, with a certificate of the authority.
func startProxy(t testing.TB, authority *testtools.Authority, hosts map[string]http.Handler) *proxy {
	t.Helper()
	p := &proxy{hosts: map[string]string{}, used: map[string]bool{}}
	for name, handler := range hosts {
		cert, key := authority.Server(name, name)
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(handler)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		t.Cleanup(server.Close)
		p.hosts[name+":443"] = server.Listener.Addr().String()
	}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

func (p *proxy) usedHosts() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.used)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	addr, ok := p.hosts[r.Host]
	if r.Method != http.MethodConnect || !ok {
		http.Error(w, "no such host", http.StatusBadGateway)
		return
	}
	p.mu.Lock()
	p.used[r.Host] = true
	p.mu.Unlock()
	upstream, err := net.Dial("tcp", addr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer upstream.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	go func() {
		_, _ = io.Copy(upstream, buffered)
		_ = upstream.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, upstream)
}

func TestProgram_DownloadsPrivateModules(t *testing.T) {
	dir := repository(t)
	overSSH := gitsshtest.Start(t)
	authority := testtools.NewAuthority(t)
	p := startProxy(t, authority, map[string]http.Handler{
		"git.test":      gitHost(t, dir, "deploy", "git's token"),
		"registry.test": registry("the registry's token"),
	})
	calls := func(source string) string { return "module \"private\" {\n  source = " + source + "\n}\n" }
	s := newStack(t, s3Backend("S3"),
		calls(`"git::https://git.test/web.git"`),
		calls(fmt.Sprintf("%q", "git::ssh://git@"+overSSH.Addr+dir+"/web.git")),
		calls(`"registry.test/own/web/test"`+"\n  version = \"~> 1.0\""))
	s.launch("l1")
	search := s.env["PATH"] + ":" + os.Getenv("PATH")
	environment := []string{
		"PATH=" + search, "HTTPS_PROXY=" + p.server.URL, "SSL_CERT_FILE=" + authority.CA, "GIT_SSL_CAINFO=" + authority.CA,
		secretOf(t, map[string]any{"git_credentials": "https://deploy:git%27s%20token@git.test\r\n", "git_ssh_key": overSSH.Key,
			"git_known_hosts": overSSH.Host, "registry_tokens": map[string]string{"registry.test": "the registry's token"}}),
	}
	var out testtools.Output
	if err := s.container("l1", &out, environment...).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, task := range []string{"t0", "t1", "t2"} {
		if run := s.run("l1", task); run.State != state.RunSucceeded || run.Changes == nil || run.Changes.Add != 1 {
			t.Errorf("%s: %+v\n%s", task, run, &out)
		}
	}
	if used := p.usedHosts(); !used["git.test:443"] || !used["registry.test:443"] {
		t.Errorf("through the proxy: %v", used)
	}
	if c := overSSH.Commands(); len(c) == 0 {
		t.Error("nothing was fetched over SSH")
	}

	// Without credentials the runs fail at once, and say why.
	s.launch("l2")
	if err := s.container("l2", &out, environment[:4]...).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for task, want := range map[string]string{"t0": "could not read Username", "t2": "registry.test"} {
		if run := s.run("l2", task); run.State != state.RunFailed || !strings.Contains(run.Error, want) {
			t.Errorf("%s without credentials: %+v", task, run)
		}
	}
}

func TestPrepareModules_KeepsCredentialsOutOfTheEnvironment(t *testing.T) {
	work := t.TempDir()
	settings := settings.Runner{Work: work, Secret: secrets.Stack{GitSSHKey: "the key", GitKnownHosts: "the hosts",
		GitCredentials: "https://a:b@git.test\nhttps://c:d@other.test/team/web.git\nhttps://e:f@other.test/team/db.git",
		RegistryTokens: map[string]secrets.Text{"registry.my-company.test": "a token"}}}
	for _, name := range []string{"GIT_TERMINAL_PROMPT", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "TF_TOKEN_registry_my__company_test"} {
		t.Setenv(name, "")
	}
	if err := prepareModules(settings); err != nil {
		t.Fatal(err)
	}
	if token := os.Getenv("TF_TOKEN_registry_my__company_test"); token != "a token" {
		t.Errorf("the registry's token is %q", token)
	}
	files, err := filepath.Glob(filepath.Join(work, "git", "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
	for _, file := range append(files, filepath.Join(work, ".gitconfig")) {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	// A host with a credential for each repository gets the one for the repository.
	for url, want := range map[string]string{"https://git.test/any.git": "username=a", "https://other.test/team/db.git": "username=e"} {
		cmd := exec.Command("git", "credential", "fill")
		cmd.Env = []string{"HOME=" + work, "PATH=" + os.Getenv("PATH"), "GIT_TERMINAL_PROMPT=0"}
		cmd.Stdin = strings.NewReader("url=" + url + "\n")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", url, err, out)
		}
	}
}

func TestPrepareModules_RefusesWhatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		held secrets.Stack
		want string
	}{
		{secrets.Stack{GitCredentials: "https://a:b@git.test\nhttps://secret token@git.test"}, "line 2 of git_credentials"},
		{secrets.Stack{GitCredentials: "secret"}, "line 1 of"},
		{secrets.Stack{RegistryTokens: map[string]secrets.Text{"https://registry.test": "secret token"}}, "is no name of a host"},
	} {
		if err := prepareModules(settings.Runner{Work: t.TempDir(), Secret: tt.held}); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret token") {
			t.Errorf("%v", err)
		}
	}
}

// secretOf is the variable with which ECS passes the stack's secret on.
func secretOf(t *testing.T, held map[string]any) string {
	t.Helper()
	text, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	return "TERRAPULSE_SECRET=" + string(text)
}
