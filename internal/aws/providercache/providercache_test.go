package providercache

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var location = s3url.URL{Bucket: "bucket", Prefix: "prefix/providers"}

// world is a registry and a bucket.
type world struct {
	t        *testing.T
	registry *registrytest.Registry
	bucket   *s3.Client
	log      testtools.Output
}

func newWorld(t *testing.T) *world {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return &world{t: t, registry: registrytest.Start(t), bucket: s3.New(s3.Options{Region: "eu-west-1", BaseEndpoint: &server.URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})}
}

// toRegistry sends requests for a public registry to that of the test.
type toRegistry struct{ address string }

func (r toRegistry) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Scheme != "https" {
		return http.DefaultTransport.RoundTrip(q)
	}
	there := q.Clone(q.Context())
	there.URL.Scheme, there.URL.Host = "http", r.address
	response, err := http.DefaultTransport.RoundTrip(there)
	if err == nil {
		response.Request = q
	}
	return response, err
}

// start starts a server as a container does.
func (w *world) start() *Server {
	w.t.Helper()
	at, err := url.Parse(w.registry.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := start(w.bucket, location, toRegistry{at.Host}, slog.New(slog.NewTextHandler(&w.log, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// get reads a URL and returns the status and the body.
func (w *world) get(at string, header ...string) (int, http.Header, string) {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, at, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(header) == 2 {
		q.Header.Set(header[0], header[1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

// archive returns where a server has the archive of a package.
func (w *world) archive(s *Server, provider string, p *registrytest.Package) string {
	w.t.Helper()
	_, _, body := w.get(s.Registries()["registry.terraform.io"]["providers.v1"] + "hashicorp/" + provider + "/" + p.Version + "/download/linux/amd64")
	var fields struct {
		DownloadURL string `json:"download_url"`
		Shasum      string
	}
	if err := json.Unmarshal([]byte(body), &fields); err != nil || fields.Shasum != p.Sum {
		w.t.Fatalf("%v in %s", err, body)
	}
	return fields.DownloadURL
}

// object returns an object in the bucket; "" if there is none.
func (w *world) object(sum string) string {
	w.t.Helper()
	key := location.Key(sum)
	object, err := w.bucket.GetObject(w.t.Context(), &s3.GetObjectInput{Bucket: &location.Bucket, Key: &key})
	if err != nil {
		return ""
	}
	defer object.Body.Close()
	content, err := io.ReadAll(object.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(content)
}

func TestServer_DownloadsAPackageOnceForAllContainers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	want, err := os.ReadFile(p.Archive)
	if err != nil {
		t.Fatal(err)
	}
	for container := range 2 {
		s := w.start()
		at := w.archive(s, "time", p)
		var all sync.WaitGroup
		for range 4 { // inits at the same time
			all.Go(func() {
				if code, _, body := w.get(at); code != http.StatusOK || body != string(want) {
					t.Errorf("container %d gets %d and %d bytes", container, code, len(body))
				}
			})
		}
		all.Wait()
		s.Close(t.Context())
		if w.object(p.Sum) != string(want) {
			t.Fatal("the archive is not in the bucket")
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(named(left, "provider-")) > 0 {
			t.Errorf("on disk remain %v, %v", left, err)
		}
	}
	if n := w.registry.Requests(".zip"); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

// named returns the names with a prefix.
func named(entries []os.DirEntry, prefix string) (names []string) {
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestServer_ContainersAtTheSameTimeUseOneObject(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	want, err := os.ReadFile(p.Archive)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		s := w.start()
		at := w.archive(s, "time", p)
		all.Go(func() {
			if code, _, body := w.get(at); code != http.StatusOK || body != string(want) {
				t.Errorf("%d and %d bytes", code, len(body))
			}
			s.Close(t.Context())
		})
	}
	all.Wait()
	if w.object(p.Sum) != string(want) {
		t.Error("the object is not the archive")
	}
}

// A container that is stopped waits for no upload.
func TestServer_CloseEndsUploads(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	uploading := make(chan struct{})
	bucket := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPut {
			http.NotFound(rw, q)
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		close(uploading)
		<-q.Context().Done()
	}))
	defer bucket.Close()
	w.bucket = s3.New(s3.Options{Region: "eu-west-1", BaseEndpoint: &bucket.URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	s := w.start()
	if code, _, _ := w.get(w.archive(s, "time", p)); code != http.StatusOK {
		t.Error(code)
	}
	<-uploading
	stopped, stop := context.WithCancel(t.Context())
	stop()
	s.Close(stopped)
}

func TestServer_ReplacesADamagedObject(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	want, err := os.ReadFile(p.Archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{want[:len(want)/2], append([]byte("x"), want...), {}} {
		key := location.Key(p.Sum)
		if _, err := w.bucket.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &location.Bucket, Key: &key, Body: bytes.NewReader(damaged)}); err != nil {
			t.Fatal(err)
		}
		s := w.start()
		if code, _, body := w.get(w.archive(s, "time", p)); code != http.StatusOK || body != string(want) {
			t.Errorf("%d, %d bytes", code, len(body))
		}
		s.Close(t.Context())
		if w.object(p.Sum) != string(want) {
			t.Error("the object is still damaged")
		}
	}
	if !strings.Contains(w.log.String(), "cannot be used, and is downloaded instead") {
		t.Errorf("the log says:\n%s", &w.log)
	}
}

func TestServer_KeepsNothingThatTheRegistryDoesNotVouchFor(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	if err := os.WriteFile(p.Archive, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.start()
	at := w.archive(s, "time", p)
	// Terraform refuses the original itself, and says why.
	if code, header, _ := w.get(at); code != http.StatusTemporaryRedirect || !strings.HasPrefix(header.Get("Location"), w.registry.URL) {
		t.Errorf("%d: %v", code, header)
	}
	if code, _, _ := w.get(strings.Replace(at, p.Sum, strings.Repeat("0", 64), 1)); code != http.StatusNotFound {
		t.Errorf("an archive that no registry has named: %d", code)
	}
	s.Close(t.Context())
	if got := w.object(p.Sum); got != "" {
		t.Errorf("in the bucket is %q", got)
	}
}

// A bucket that cannot be used costs a download, and nothing else.
func TestServer_WorksWithoutTheBucket(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	location.Bucket = "none"
	defer func() { location.Bucket = "bucket" }()
	s := w.start()
	if code, _, body := w.get(w.archive(s, "time", p)); code != http.StatusOK || len(body) == 0 {
		t.Errorf("%d: %d bytes", code, len(body))
	}
	s.Close(t.Context())
	for _, want := range []string{"is downloaded instead", "was not put into the bucket", "there is no bucket none"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &w.log)
		}
	}
}

func TestServer_ReadsVersionsOncePerMinute(t *testing.T) {
	w := newWorld(t)
	p := w.registry.Add("time", 0)
	s := w.start()
	at := s.Registries()["registry.terraform.io"]["providers.v1"] + "hashicorp/time/versions"
	for range 3 {
		if code, _, body := w.get(at); code != http.StatusOK || !strings.Contains(body, fmt.Sprintf("%q", p.Version)) {
			t.Errorf("%d: %s", code, body)
		}
	}
	if n := w.registry.Requests("versions"); n != 1 {
		t.Errorf("%d requests", n)
	}
	// A registry may answer differently to who has logged in.
	w.get(at, "Authorization", "Bearer token")
	w.get(at, "Authorization", "Bearer token")
	if n := w.registry.Requests("versions"); n != 3 {
		t.Errorf("%d requests", n)
	}
	if n := w.registry.Requests("well-known"); n != 1 {
		t.Errorf("%d discoveries", n)
	}
}

// Without an answer, Terraform tries the registry itself, so that its error names the registry.
func TestServer_LeadsToARegistryThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.registry.Close()
	s := w.start()
	for service, want := range map[string]string{
		"providers.v1": "https://registry.opentofu.org/v1/providers/hashicorp/time/versions",
		"modules.v1":   "https://registry.opentofu.org/v1/modules/hashicorp/time/versions",
	} {
		code, header, _ := w.get(s.Registries()["registry.opentofu.org"][service] + "hashicorp/time/versions")
		if code != http.StatusTemporaryRedirect || header.Get("Location") != want {
			t.Errorf("%d: %v", code, header)
		}
	}
}

func TestServer_PassesOtherRequestsToTheRegistry(t *testing.T) {
	w := newWorld(t)
	s := w.start()
	services := s.Registries()["registry.terraform.io"]
	code, header, _ := w.get(services["modules.v1"] + "own/web/test/1.0.0/download")
	if place := header.Get("X-Terraform-Get"); code != http.StatusNoContent || place != "https://registry.terraform.io/module.tar.gz" {
		t.Errorf("%d: the module is at %q", code, place)
	}
	for _, at := range []string{services["providers.v1"] + "hashicorp/none/versions", strings.Replace(services["providers.v1"], "registry.terraform.io", "169.254.170.2", 1) + "a/b/versions"} {
		if code, _, _ := w.get(at); code != http.StatusNotFound {
			t.Errorf("%s: %d", at, code)
		}
	}
}
