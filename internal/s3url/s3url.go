// Package s3url reads and writes S3 URLs such as s3://bucket/prefix.
package s3url

import (
	"fmt"
	"strings"
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
