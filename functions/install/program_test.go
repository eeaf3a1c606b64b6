package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const location = "s3://the-bucket/some/prefix/programs/one"

// newPrograms returns programs whose bucket, the-bucket, keeps versions.
func newPrograms(t *testing.T) *programs {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	client := s3.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("the-bucket"),
		CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: "eu-west-1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{Bucket: aws.String("the-bucket"),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	p := &programs{Client: client, Folder: t.TempDir(), Trust: t.TempDir(), Patience: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, dir := range []string{"aarch64", "x86_64"} {
		if err := os.Mkdir(filepath.Join(p.Folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.build(t, "one")
	return p
}

// build puts a version of the programs for both processors into the function's zip.
func (p *programs) build(t *testing.T, version string) {
	t.Helper()
	for _, dir := range []string{"aarch64", "x86_64"} {
		if err := os.WriteFile(filepath.Join(p.Folder, dir, "runner"), []byte(version+" for "+dir), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// request sends a request of CloudFormation, and returns the key and the SHA-256 of the program.
func (p *programs) request(t *testing.T, kind cfn.RequestType, id string) (key, sum string) {
	t.Helper()
	got, data, err := p.handle(t.Context(), cfn.Event{RequestType: kind, PhysicalResourceID: id,
		ResourceProperties: map[string]any{"Location": location, "Architecture": "arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	if got != cmp.Or(id, location) {
		t.Errorf("%s: the id is %s", kind, got)
	}
	address, _ := data["Url"].(string)
	sum, _ = data["Sha256"].(string)
	return strings.TrimPrefix(address, "s3://the-bucket/"), sum
}

// versions returns all versions of all objects below a prefix.
func (p *programs) versions(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	out, err := p.Client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("the-bucket"), Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out.Versions {
		keys = append(keys, *v.Key)
	}
	for _, m := range out.DeleteMarkers {
		keys = append(keys, *m.Key)
	}
	return keys
}

func TestProgram_IsAnArchiveNamedByItsSHA256(t *testing.T) {
	p := newPrograms(t)
	for name, content := range map[string]string{"own.pem": "a certificate", "README.md": "text"} {
		if err := os.WriteFile(filepath.Join(p.Trust, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, sum := p.request(t, cfn.RequestCreate, "")
	object, err := p.Client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("the-bucket"), Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	content, err := io.ReadAll(object.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != sum || key != "some/prefix/programs/one/"+sum {
		t.Errorf("%s has the SHA-256 %x", key, got)
	}
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = fmt.Sprintf("%o %s", h.Mode, text)
	}
	if len(files) != 2 || files["runner"] != "755 one for aarch64" || files["trust/own.pem"] != "644 a certificate" {
		t.Errorf("the archive has %q", files)
	}
	if again, _ := p.request(t, cfn.RequestUpdate, location); again != key {
		t.Errorf("the same files give %s and %s", key, again)
	}
}

// An update keeps the programs of the deployments before, because containers that were started just
// before it load them.
func TestProgram_UpdatesKeepTheNewest(t *testing.T) {
	p := newPrograms(t)
	first, _ := p.request(t, cfn.RequestCreate, "")
	var keys []string
	for _, version := range []string{"two", "three", "four"} {
		p.build(t, version)
		// S3 gives times in seconds.
		for began := time.Now().Truncate(time.Second); time.Since(began) < time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		key, _ := p.request(t, cfn.RequestUpdate, location)
		keys = append(keys, key)
	}
	left := strings.Join(p.versions(t, "some/prefix/programs/"), " ")
	if strings.Contains(left, first) {
		t.Error("the oldest program is still there")
	}
	for _, key := range keys {
		if !strings.Contains(left, key) {
			t.Errorf("%s is not in %s", key, left)
		}
	}
}

// After its stack is deleted, the bucket has no version of a program. What else is in the bucket
// stays.
func TestProgram_DeleteRemovesAllVersions(t *testing.T) {
	p := newPrograms(t)
	other := &s3.PutObjectInput{Bucket: aws.String("the-bucket"), Key: aws.String("some/prefix/state/x"), Body: strings.NewReader("state")}
	if _, err := p.Client.PutObject(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	p.request(t, cfn.RequestCreate, "")
	p.request(t, cfn.RequestUpdate, location)
	p.build(t, "two")
	p.request(t, cfn.RequestUpdate, location)
	p.request(t, cfn.RequestDelete, "1234") // of a Create that failed before it gave an id
	if n := len(p.versions(t, "some/prefix/programs/")); n < 3 {
		t.Fatalf("%d versions", n)
	}
	p.request(t, cfn.RequestDelete, location)
	if left := p.versions(t, ""); len(left) != 1 || left[0] != "some/prefix/state/x" {
		t.Errorf("left: %v", left)
	}
}

// Stacks that share a bucket and a prefix have folders of their own.
func TestProgram_DeleteKeepsTheProgramsOfOtherStacks(t *testing.T) {
	p := newPrograms(t)
	other := location + "-2"
	if _, _, err := p.handle(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{"Location": other, "Architecture": "arm64"}}); err != nil {
		t.Fatal(err)
	}
	p.request(t, cfn.RequestCreate, "")
	p.request(t, cfn.RequestDelete, location)
	if left := p.versions(t, ""); len(left) != 1 || !strings.HasPrefix(left[0], "some/prefix/programs/one-2/") {
		t.Errorf("left: %v", left)
	}
}

// A bucket that is gone has no programs: the deletion of the stack goes on.
func TestProgram_DeleteWithoutABucket(t *testing.T) {
	p := newPrograms(t)
	e := cfn.Event{RequestType: cfn.RequestDelete, PhysicalResourceID: "s3://gone/programs", ResourceProperties: map[string]any{"Location": "s3://gone/programs"}}
	if id, _, err := p.handle(t.Context(), e); err != nil || id != "s3://gone/programs" {
		t.Errorf("%s, %v", id, err)
	}
}

// A right that is missing, or a lock of an object, does not keep a stack from being deleted.
func TestProgram_DeleteEndsWithoutItsRights(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"of the list": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>AccessDenied</Code></Error>`)
		},
		"of an object": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprint(w, `<ListVersionsResult><Version><Key>some/prefix/programs/one/1</Key><VersionId>1</VersionId></Version></ListVersionsResult>`)
				return
			}
			fmt.Fprint(w, `<DeleteResult><Error><Key>some/prefix/programs/one/1</Key><Code>AccessDenied</Code></Error></DeleteResult>`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, err := install(t, answer, cfn.Event{RequestType: cfn.RequestDelete, ResourceType: typeProgram, PhysicalResourceID: location, ResourceProperties: resources[typeProgram].properties})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
