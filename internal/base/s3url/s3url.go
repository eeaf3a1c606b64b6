// Package s3url reads and writes S3 URLs such as s3://bucket/prefix, and explains errors of S3.
package s3url

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// URL is s3://bucket/prefix. The prefix neither begins nor ends with a slash.
type URL struct{ Bucket, Prefix string }

// Parse reads s3://bucket or s3://bucket/prefix.
func Parse(text string) (URL, error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return URL{}, fmt.Errorf("%q is not a valid S3 URL: write s3://bucket/prefix", text)
	}
	return URL{bucket, strings.Trim(prefix, "/")}, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(text []byte) (err error) {
	*u, err = Parse(string(text))
	return err
}

// Key returns the key of the object called name below the URL.
func (u URL) Key(name string) string {
	if u.Prefix == "" {
		return name
	}
	return u.Prefix + "/" + name
}

func (u URL) String() string { return "s3://" + u.Bucket + "/" + u.Prefix }

// Code returns the error code and the HTTP status of an answer of S3, or zero values.
func Code(err error) (code string, status int) {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if answer := (*awshttp.ResponseError)(nil); errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	return code, status
}

// Explain adds to an error of S3 what a person can do about it.
func (u URL) Explain(err error) error {
	code, status := Code(err)
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("there is no bucket %s: check its name; the stack's output BundleUrl is the bundle location (%w)", u.Bucket, err)
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect, code == "PermanentRedirect",
		code == "AuthorizationHeaderMalformed", code == "IllegalLocationConstraintException":
		var region string
		if answer := (*awshttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
			region = answer.Response.Header.Get("X-Amz-Bucket-Region")
		}
		return fmt.Errorf("bucket %s is in %s: set AWS_REGION to it (%w)", u.Bucket, cmp.Or(region, "another region"), err)
	case status == http.StatusForbidden, code == "AccessDenied":
		return fmt.Errorf("access is denied: the credentials need s3:GetObject and, to write, s3:PutObject on %s*, the use of its KMS key, "+
			"and s3:ListBucket on the bucket, without which S3 denies access to missing objects (%w)", u, err)
	}
	return err
}
