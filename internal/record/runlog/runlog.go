// Package runlog stores the output of runs in S3 as gzip'd text, one object per run. The lifecycle
// rule of the bucket removes it.
package runlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maxText limits the unpacked output, in bytes: more than a run keeps.
const maxText = 2 * state.MaxLog

// Bucket stores the output of runs in S3. It is safe for concurrent use.
type Bucket struct {
	Client   *s3.Client
	Location s3url.URL
}

// ErrTaken is returned by Save if the output exists already and was not written by the same Save.
var ErrTaken = errors.New("the output of this run exists already")

// Save stores the output of a run and returns the URL for Load. The bucket decides how long it is
// kept. Output is written once: the containers may write only under this condition.
func (b Bucket) Save(ctx context.Context, task, run string, output []byte, _ time.Time) (string, error) {
	at := s3url.URL{Bucket: b.Location.Bucket, Prefix: b.Location.Key(url.PathEscape(task) + "/" + run + ".log.gz")}
	var attempts int
	_, err := b.Client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &at.Bucket, Key: &at.Prefix, Body: bytes.NewReader(state.Pack(output)), IfNoneMatch: aws.String("*"),
		ContentType: aws.String("text/plain; charset=utf-8"), ContentEncoding: aws.String("gzip"),
	}, counted(&attempts))
	switch code, _ := s3url.Code(err); {
	case code == "PreconditionFailed" && attempts > 1:
		// An earlier attempt has written it, and its answer was lost.
	case code == "PreconditionFailed":
		return "", fmt.Errorf("write %s: %w", at, ErrTaken)
	case err != nil:
		return "", fmt.Errorf("write %s: %w", at, at.Explain(err))
	}
	return at.String(), nil
}

// Load returns the output that Save stored under a URL, or state.ErrGone if it does not exist: it is kept
// only for a time.
func Load(ctx context.Context, client *s3.Client, url string) ([]byte, error) {
	at, err := s3url.Parse(url)
	if err != nil {
		return nil, err
	}
	object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &at.Bucket, Key: &at.Prefix})
	if code, _ := s3url.Code(err); code == "NoSuchKey" {
		return nil, fmt.Errorf("read %s: %w", at, state.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, at.Explain(err))
	}
	defer object.Body.Close()
	zip, err := gzip.NewReader(object.Body)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", at, err)
	}
	output, err := io.ReadAll(io.LimitReader(zip, maxText))
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", at, err)
	}
	return output, nil
}

// counted counts the attempts at a request.
func counted(attempts *int) func(*s3.Options) {
	count := middleware.FinalizeMiddlewareFunc("CountAttempts",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			*attempts++
			return next.HandleFinalize(ctx, in)
		})
	return s3.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(count, "Retry", middleware.After)
	})
}
