package main

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

func TestUnsavedStates_KeptWhereOnlyTerraformsStatesAre(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer server.Close()
	client := s3.New(s3.Options{
		BaseEndpoint: &server.URL, Region: "eu-west-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
	u := unsavedStates{client, s3url.URL{Bucket: "bucket", Prefix: "prefix"}}
	place, err := u.keep(t.Context(), "web", "errored.tfstate.20260101T000000Z", []byte("a state"))
	if err != nil || place != "s3://bucket/prefix/state/unsaved/web/errored.tfstate.20260101T000000Z" {
		t.Fatalf("kept in %s: %v", place, err)
	}
	key := strings.TrimPrefix(place, "s3://bucket/")
	object, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if got, err := io.ReadAll(object.Body); err != nil || string(got) != "a state" {
		t.Errorf("the object holds %q: %v", got, err)
	}
}
