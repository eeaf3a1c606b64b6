package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/s3url"
)

// unsavedStates keeps states of Terraform that could not be written to their
// backend: this container's disk ends with it. The place is one that only the
// containers' role may read, besides who administers the bucket; it is not that of
// the runs' output, as a state holds secrets.
type unsavedStates struct {
	client interface {
		PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	}
	location s3url.URL // the bundles'
}

// keep writes a state of the task and returns its URL.
func (u unsavedStates) keep(ctx context.Context, task, name string, state []byte) (place string, err error) {
	at := s3url.URL{Bucket: u.location.Bucket, Prefix: u.location.Key("state/unsaved/" + url.PathEscape(task) + "/" + name)}
	_, err = u.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &at.Bucket, Key: &at.Prefix, Body: bytes.NewReader(state), ContentType: aws.String("application/json"),
	})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", at, err)
	}
	return at.String(), nil
}
