package bundle_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// cloud is an S3 server in this process. Before and after delay a request or drop its answer, once.
type cloud struct {
	bucket *bundle.Bucket

	mu            sync.Mutex
	before, after func(w http.ResponseWriter, r *http.Request) (done bool)
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	c := &cloud{}
	real := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := c.take(&c.before, r); do != nil && do(w, r) {
			return
		}
		if do := c.take(&c.after, r); do != nil {
			real.ServeHTTP(httptest.NewRecorder(), r)
			do(w, r)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.bucket = &bundle.Bucket{Client: client(server.URL), Location: s3url.URL{Bucket: "files", Prefix: "some/prefix"}}
	return c
}

func client(url string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url, Region: "eu-central-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		Retryer:     aws.NopRetryer{},
	})
}

// take returns what to do with a write of the pointer.
func (c *cloud) take(do *func(http.ResponseWriter, *http.Request) bool, r *http.Request) func(http.ResponseWriter, *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/current") {
		return nil
	}
	f := *do
	*do = nil
	return f
}

func (c *cloud) push(t *testing.T, b bundle.Bundle, by string) bundle.Pointer {
	t.Helper()
	p, _, err := c.bucket.Push(t.Context(), b, by, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// three returns different bundles.
func three(t *testing.T) (a, b, c bundle.Bundle) {
	t.Helper()
	of := func(text string) bundle.Bundle {
		return pack(t, load(t, written(t, with(map[string]string{"net/lb/x": text})), "tasks"))
	}
	return of("1"), of("2"), of("3")
}

// lost closes the connection without an answer.
func lost(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

func TestPush_BundleIsInForceAndCanBePulled(t *testing.T) {
	s := newCloud(t)
	if p, err := s.bucket.Current(t.Context()); err != nil || p != (bundle.Pointer{}) {
		t.Fatalf("at first there is %+v, %v", p, err)
	}
	a, b, _ := three(t)
	for _, next := range []bundle.Bundle{a, b, a} {
		p, moved, err := s.bucket.Push(t.Context(), next, "me", now)
		if err != nil || !moved || p.Digest != next.Digest || p.By != "me" || !p.Pushed.Equal(now) {
			t.Fatalf("pushed %+v, %v, %v", p, moved, err)
		}
		got, err := s.bucket.Current(t.Context())
		if err != nil || got != p {
			t.Errorf("in force is %+v, %v", got, err)
		}
		pulled, err := s.bucket.Pull(t.Context(), got.Digest)
		if err != nil || string(pulled.Zip) != string(next.Zip) {
			t.Errorf("pulled something else: %v", err)
		}
	}
	if p, moved, err := s.bucket.Push(t.Context(), a, "another", now); err != nil || moved || p.By != "me" {
		t.Errorf("pushed again it is %+v, %v, %v", p, moved, err)
	}
}

func TestPush_OvertakenPushChangesNothing(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("the first ", first), func(t *testing.T) {
			s := newCloud(t)
			a, b, c := three(t)
			if !first {
				s.push(t, a, "somebody")
			}
			s.before = func(http.ResponseWriter, *http.Request) bool {
				s.push(t, b, "another")
				return false
			}
			_, _, err := s.bucket.Push(t.Context(), c, "me", now)
			if moved := new(bundle.MovedError); !errors.As(err, &moved) || moved.Pointer.Digest != b.Digest || !strings.HasPrefix(err.Error(), "another has pushed bundle") {
				t.Errorf("the error is %v", err)
			}
			if p, err := s.bucket.Current(t.Context()); err != nil || p.Digest != b.Digest {
				t.Errorf("in force is %+v, %v", p, err)
			}
		})
	}
}

func TestPush_SamePushByAnother(t *testing.T) {
	s := newCloud(t)
	a, b, _ := three(t)
	s.push(t, a, "somebody")
	s.before = func(http.ResponseWriter, *http.Request) bool {
		s.push(t, b, "another")
		return false
	}
	if p, moved, err := s.bucket.Push(t.Context(), b, "me", now); err != nil || moved || p.By != "another" {
		t.Errorf("pushed %+v, %v, %v", p, moved, err)
	}
}

func TestPush_LostAnswer(t *testing.T) {
	for name, retries := range map[string]aws.Retryer{"with the client's retries": retry.NewStandard(), "without": aws.NopRetryer{}} {
		t.Run(name, func(t *testing.T) {
			s := newCloud(t)
			a, b, _ := three(t)
			s.push(t, a, "somebody")
			url := *s.bucket.Client.(*s3.Client).Options().BaseEndpoint
			s.bucket.Client = s3.New(client(url).Options(), func(o *s3.Options) { o.Retryer = retries })
			s.after = lost
			if p, moved, err := s.bucket.Push(t.Context(), b, "me", now); err != nil || !moved || p.Digest != b.Digest {
				t.Errorf("pushed %+v, %v, %v", p, moved, err)
			}
		})
	}
}

// S3 documents the status 409 for concurrent writes, which should be retried.
func conflict(w http.ResponseWriter, r *http.Request) bool {
	io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusConflict)
	io.WriteString(w, `<Error><Code>ConditionalRequestConflict</Code><Message>x</Message></Error>`)
	return true
}

func TestPush_RetriesAConflict(t *testing.T) {
	s := newCloud(t)
	a, b, _ := three(t)
	s.push(t, a, "somebody")
	s.before = conflict
	if p, moved, err := s.bucket.Push(t.Context(), b, "me", now); err != nil || !moved || p.Digest != b.Digest {
		t.Errorf("pushed %+v, %v, %v", p, moved, err)
	}
}

// A role that may not replace objects can store a bundle that is there, and a damaged one is replaced
// with the right to do so.
func TestStore_ReplacesOnlyADamagedBundle(t *testing.T) {
	s := newCloud(t)
	var writes []string // their conditions
	s.bucket.Client = s3.New(s.bucket.Client.(*s3.Client).Options(), func(o *s3.Options) {
		o.HTTPClient = doer(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				writes = append(writes, r.Header.Get("If-None-Match"))
			}
			return http.DefaultClient.Do(r)
		})
	})
	a, b, _ := three(t)
	for range 2 {
		if err := s.bucket.Store(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(writes, " ") != "* *" {
		t.Errorf("written with the conditions %q", writes)
	}
	bad := b
	bad.Zip = a.Zip
	for _, next := range []bundle.Bundle{bad, b} {
		if err := s.bucket.Store(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.bucket.Pull(t.Context(), b.Digest); err != nil {
		t.Errorf("the damaged bundle stays: %v", err)
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func TestPull_DamagedOrMissingBundleIsInvalid(t *testing.T) {
	s := newCloud(t)
	a, b, _ := three(t)
	bad := a
	bad.Zip = b.Zip
	s.push(t, bad, "me")
	for digest, want := range map[string]string{a.Digest: "it is damaged", b.Digest: "the object does not exist"} {
		_, err := s.bucket.Pull(t.Context(), digest)
		if invalid := new(bundle.InvalidError); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\nin: %v", want, err)
		}
	}
}

func TestLoad_ErrorsNameTheirPlace(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := newCloud(t)
	a, b, _ := three(t)
	s.push(t, a, "me")
	cfg, err := s.bucket.Load(t.Context(), a.Digest)
	if err != nil || len(cfg.Tasks) == 0 {
		t.Fatalf("%+v, %v", cfg, err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	if cfg, err = s.bucket.LoadInto(t.Context(), a.Digest, dir); err != nil || !strings.HasPrefix(cfg.Dir(), dir) {
		t.Errorf("it lies in %s, %v", cfg.Dir(), err)
	}
	none := bundle.Bundle{Zip: []byte("no bundle")}
	none.Digest = fmt.Sprintf("%x", sha256.Sum256(none.Zip))
	s.push(t, none, "me")
	for digest, want := range map[string]string{none.Digest: "open the bundle", b.Digest: "the object does not exist"} {
		_, err := s.bucket.Load(t.Context(), digest)
		if invalid := new(bundle.InvalidError); !errors.As(err, &invalid) {
			t.Errorf("not invalid: %v", err)
		}
		said(t, err, "read bundle s3://files/some/prefix/bundles/"+digest+".zip: ", want)
		if n := strings.Count(err.Error(), "read bundle"); n != 1 {
			t.Errorf("said %d times: %v", n, err)
		}
	}
}

func TestCurrent_RefusesAnInvalidPointer(t *testing.T) {
	s := newCloud(t)
	for _, text := range []string{"", "junk", "{}", `{"digest": "abc"}`} {
		_, err := s.bucket.Client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("files"), Key: aws.String("some/prefix/current"), Body: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := s.bucket.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "s3://files/some/prefix/current") {
			t.Errorf("%q is %+v, %v", text, p, err)
		}
	}
}

func TestBucket_ExplainsRefusals(t *testing.T) {
	s := newCloud(t)
	s.bucket.Location.Bucket = "gone"
	_, err := s.bucket.Current(t.Context())
	said(t, err, "s3://gone/some/prefix/current", "there is no bucket gone", "BundleUrl")

	for _, tt := range []struct {
		status int
		code   string
		want   []string
	}{
		{403, "AccessDenied", []string{"access is denied", "s3:GetObject", "s3:ListBucket"}},
		{301, "PermanentRedirect", []string{"bucket files is in us-west-2", "set AWS_REGION"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "us-west-2")
			w.WriteHeader(tt.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>x</Message></Error>", tt.code)
		}))
		b := bundle.Bucket{Client: client(server.URL), Location: s3url.URL{Bucket: "files"}}
		_, err := b.Current(t.Context())
		said(t, err, tt.want...)
		server.Close()
	}
}

func TestPush_EndsWithTheContext(t *testing.T) {
	s := newCloud(t)
	a, _, _ := three(t)
	ctx, stop := context.WithCancel(t.Context())
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		stop()
		return conflict(w, r)
	}
	if _, _, err := s.bucket.Push(ctx, a, "me", now); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func said(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("not said: %s\nin: %s", w, err)
		}
	}
}
