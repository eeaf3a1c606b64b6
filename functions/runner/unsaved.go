package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// unsavedStates stores Terraform states that could not be written to their backend, because the
// container's disk is deleted with it. Only the containers' roles, and administrators of the bucket,
// may read the place; it is separate from the output of runs, because a state contains secrets.
type unsavedStates struct {
	client interface {
		PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	}
	location s3url.URL // the location of the bundles
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
