package main

import (
	"context"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
)

// states reads Terraform's states in S3.
type states struct{ client *s3.Client }

// read returns the content of a state; nil if there is none. Without the right to list the bucket, S3
// does not say so: then that is an error.
func (s states) read(ctx context.Context, o terraformcli.S3Object) ([]byte, error) {
	object, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.Bucket, Key: &o.Key}, func(options *s3.Options) {
		if o.Region != "" {
			options.Region = o.Region
		}
		if o.Endpoint != "" {
			options.BaseEndpoint = aws.String(o.Endpoint)
		}
		options.UsePathStyle = options.UsePathStyle || o.PathStyle
		if o.AccessKey != "" {
			options.Credentials = credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey, "")
		}
	})
	if errors.As(err, new(*types.NoSuchKey)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer object.Body.Close()
	return io.ReadAll(object.Body)
}
