package runlog

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// serve returns a client of an S3 server.
func serve(t *testing.T, handler http.Handler) *s3.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return s3.New(s3.Options{Region: "eu-central-1", BaseEndpoint: &server.URL, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
}

func newBucket(t *testing.T) (Bucket, *s3mem.Backend) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	client := serve(t, gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	return Bucket{client, s3url.URL{Bucket: "logs", Prefix: "runs"}}, backend
}

func TestLoad_FindsOutputByItsURL(t *testing.T) {
	large := make([]byte, state.MaxLog)
	rand.New(rand.NewSource(1)).Read(large)
	b, _ := newBucket(t)
	for run, text := range map[string][]byte{"r1": []byte("Apply complete!\n"), "r2": large, "r3": nil} {
		for _, task := range []string{"web", "größe a/b%?#"} {
			url, err := b.Save(t.Context(), task, run, text, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(url, "s3://logs/runs/") || !strings.HasSuffix(url, "/"+run+".log.gz") || strings.Count(url, "/") != 5 {
				t.Errorf("the URL is %s", url)
			}
			got, err := Load(t.Context(), b.Client, url)
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s of %q: %d bytes of %d, %v", run, task, len(got), len(text), err)
			}
		}
	}
}

func TestSave_OutputIsWrittenOnce(t *testing.T) {
	b, _ := newBucket(t)
	url, err := b.Save(t.Context(), "web", "r1", []byte("the truth"), time.Time{})
	if err != nil || url != "s3://logs/runs/web/r1.log.gz" {
		t.Fatalf("saved at %s, %v", url, err)
	}
	if url, err := b.Save(t.Context(), "web", "r1", []byte("something else"), time.Time{}); !errors.Is(err, ErrTaken) || url != "" {
		t.Errorf("saved once more at %s, %v", url, err)
	}
	if got, err := Load(t.Context(), b.Client, url); err != nil || string(got) != "the truth" {
		t.Errorf("it is %q now, %v", got, err)
	}
}

func TestSave_LostAnswerIsNoFailure(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	server := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	writes := 0
	client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if writes++; writes == 1 {
			server.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, r)
	}))
	options := client.Options()
	options.RetryMaxAttempts, options.Retryer = 0, retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
	b := Bucket{s3.New(options), s3url.URL{Bucket: "logs"}}
	if url, err := b.Save(t.Context(), "web", "r1", []byte("x"), time.Time{}); err != nil || url != "s3://logs/web/r1.log.gz" || writes != 2 {
		t.Errorf("saved at %s with %d writes, %v", url, writes, err)
	}
}

func TestSave_BrowserShowsTheOutputAsText(t *testing.T) {
	b, _ := newBucket(t)
	if _, err := b.Save(t.Context(), "web", "r1", []byte("x"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	head, err := b.Client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("logs"), Key: aws.String("runs/web/r1.log.gz")})
	if err != nil || aws.ToString(head.ContentType) != "text/plain; charset=utf-8" || aws.ToString(head.ContentEncoding) != "gzip" {
		t.Errorf("%+v, %v", head, err)
	}
}

func TestLoad_ErrorSaysWhatToDo(t *testing.T) {
	b, backend := newBucket(t)
	if _, err := backend.PutObject("logs", "plain", nil, strings.NewReader("text"), 4, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), b.Client, "s3://logs/runs/web/r1.log.gz"); !errors.Is(err, state.ErrGone) {
		t.Errorf("output that is gone: %v", err)
	}
	for url, want := range map[string]string{
		"file:///tmp/x":   "not a valid S3 URL",
		"s3://other/x.gz": "there is no bucket other",
		"s3://logs/plain": "unpack s3://logs/plain",
	} {
		if _, err := Load(t.Context(), b.Client, url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func TestLoad_DeniedBucketNamesTheMissingRight(t *testing.T) {
	client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte(`<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`))
	}))
	_, err := Bucket{client, s3url.URL{Bucket: "logs"}}.Save(context.Background(), "web", "r1", nil, time.Time{})
	if err == nil || !strings.Contains(err.Error(), "write s3://logs/web/r1.log.gz") || !strings.Contains(err.Error(), "s3:PutObject") {
		t.Errorf("got %v", err)
	}
}
