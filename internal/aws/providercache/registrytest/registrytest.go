// Package registrytest is a registry of Terraform providers for tests.
package registrytest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Registry is a registry with signed packages for this machine, which also serves their archives.
type Registry struct {
	URL   string // on loopback; any other host may have the same handler
	Close func() // ends it before the test does

	t       testing.TB
	dir     string
	handler http.Handler
	signer  *openpgp.Entity
	key     string // of signer, in armor

	mu       sync.Mutex
	packages map[string]*Package // by NAMESPACE/TYPE
	requests map[string]int      // by path
}

// Package is a version of a provider.
type Package struct {
	Version string
	Sum     string // SHA-256 of the archive
	Archive string // path of the archive on disk: a test may change its content

	name, protocol string
}

// Start starts a registry, which ends with the test.
func Start(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{t: t, dir: t.TempDir(), packages: map[string]*Package{}, requests: map[string]int{}}
	var err error
	if r.signer, err = openpgp.NewEntity("test", "", "test@localhost", &packet.Config{RSABits: 2048}); err != nil {
		t.Fatal(err)
	}
	var key bytes.Buffer
	armored, err := armor.Encode(&key, openpgp.PublicKeyType, nil)
	if err == nil {
		err = r.signer.Serialize(armored)
	}
	if err == nil {
		err = armored.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.key = key.String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/terraform.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]string{"providers.v1": "/v1/providers/", "modules.v1": "/v1/modules/"})
	})
	mux.HandleFunc("GET /v1/providers/{namespace}/{type}/versions", r.versions)
	mux.HandleFunc("GET /v1/providers/{namespace}/{type}/{version}/download/{os}/{arch}", r.describe)
	mux.HandleFunc("GET /v1/modules/own/web/test/1.0.0/download", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Terraform-Get", "/module.tar.gz")
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /files/{file}", func(w http.ResponseWriter, q *http.Request) {
		http.ServeFile(w, q, filepath.Join(r.dir, filepath.Base(q.PathValue("file"))))
	})
	r.handler = mux
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL, r.Close = server.URL, server.Close
	return r
}

// ServeHTTP counts a request and answers it.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method == http.MethodGet { // not what only looks at the header
		r.mu.Lock()
		r.requests[q.URL.Path]++
		r.mu.Unlock()
	}
	r.handler.ServeHTTP(w, q)
}

// Requests returns how often paths that contain a text were read.
func (r *Registry) Requests(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for path, n := range r.requests {
		if strings.Contains(path, part) {
			count += n
		}
	}
	return count
}

// Add adds a version of a hashicorp provider, local or time, which becomes larger by some padding.
// With padding, it is packed to about a third, like a real provider.
func (r *Registry) Add(provider string, padding int) *Package {
	r.t.Helper()
	testtools.NeedsPrograms(r.t) // the provider's
	platform := runtime.GOOS + "_" + runtime.GOARCH
	found, err := filepath.Glob(filepath.Join(testtools.Root(r.t), ".tools", "mirror", "registry.terraform.io", "hashicorp", provider, "*", platform, "*"))
	if err != nil || len(found) != 1 {
		r.t.Fatalf("the provider %s of this machine is missing, run `make tools` first: %v, %v", provider, found, err)
	}
	return r.AddProgram(provider, filepath.Base(filepath.Dir(filepath.Dir(found[0]))), "5.0", found[0], padding)
}

// AddProgram adds a version of a hashicorp provider, whose program speaks a protocol.
func (r *Registry) AddProgram(provider, version, protocol, file string, padding int) *Package {
	r.t.Helper()
	platform := runtime.GOOS + "_" + runtime.GOARCH
	p := &Package{Version: version, protocol: protocol}
	p.name = fmt.Sprintf("terraform-provider-%s_%s_%s", provider, p.Version, platform)
	p.Archive = filepath.Join(r.dir, p.name+".zip")
	out, err := os.Create(p.Archive)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := sha256.New()
	w := zip.NewWriter(io.MultiWriter(out, sum))
	header := &zip.FileHeader{Name: filepath.Base(file)}
	if padding > 0 {
		header.Method = zip.Deflate
	}
	header.SetMode(0o755)
	entry, err := w.CreateHeader(header)
	if err != nil {
		r.t.Fatal(err)
	}
	program, err := os.Open(file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer program.Close()
	if _, err = io.Copy(entry, program); err == nil {
		err = pad(entry, padding)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	p.Sum = hex.EncodeToString(sum.Sum(nil))
	sums := p.Sum + "  " + p.name + ".zip\n"
	var signature bytes.Buffer
	if err := openpgp.DetachSign(&signature, r.signer, strings.NewReader(sums), nil); err != nil {
		r.t.Fatal(err)
	}
	for suffix, text := range map[string]string{"_SHA256SUMS": sums, "_SHA256SUMS.sig": signature.String()} {
		if err := os.WriteFile(filepath.Join(r.dir, p.name+suffix), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.packages["hashicorp/"+provider] = p
	return p
}

// pad writes blocks of which a quarter is hard to pack.
func pad(w io.Writer, size int) error {
	block := make([]byte, 4096)
	for i := 0; i < size; i += len(block) {
		next := sha256.Sum256(fmt.Append(nil, i))
		for j := 0; j < 1024; j += len(next) {
			copy(block[j:], next[:])
			next = sha256.Sum256(next[:])
		}
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) find(q *http.Request) *Package {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.packages[q.PathValue("namespace")+"/"+q.PathValue("type")]
}

func (r *Registry) versions(w http.ResponseWriter, q *http.Request) {
	p := r.find(q)
	if p == nil {
		http.NotFound(w, q)
		return
	}
	answer(w, map[string]any{"versions": []any{map[string]any{"version": p.Version, "protocols": []string{p.protocol},
		"platforms": []any{map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}}}}})
}

func (r *Registry) describe(w http.ResponseWriter, q *http.Request) {
	p := r.find(q)
	if p == nil || p.Version != q.PathValue("version") {
		http.NotFound(w, q)
		return
	}
	answer(w, map[string]any{
		"protocols": []string{p.protocol}, "os": runtime.GOOS, "arch": runtime.GOARCH, "filename": p.name + ".zip", "shasum": p.Sum,
		"download_url": r.URL + "/files/" + p.name + ".zip", "shasums_url": r.URL + "/files/" + p.name + "_SHA256SUMS",
		"shasums_signature_url": r.URL + "/files/" + p.name + "_SHA256SUMS.sig",
		"signing_keys":          map[string]any{"gpg_public_keys": []any{map[string]string{"key_id": r.signer.PrimaryKey.KeyIdString(), "ascii_armor": r.key}}},
	})
}

// answer writes JSON.
func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client reports a broken connection
}
