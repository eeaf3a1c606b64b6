package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Names of objects below the bucket's location.
const (
	pointerName = "current"
	folderName  = "bundles"
)

// maxPointer is more than the length of a pointer, in bytes.
const maxPointer = 64 << 10

// maxZip limits the zip of a bundle, in bytes: its content, and the zip's data about each file.
const maxZip = maxBytes + maxFiles*1000 + 1<<20

// S3 are the operations of S3 that this package uses.
type S3 interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// Bucket keeps bundles in S3: each one as bundles/<digest>.zip, and in the object current a Pointer
// to the bundle that is to be in force.
type Bucket struct {
	Client   S3
	Location s3url.URL
}

// Pointer names the bundle that is to be in force. The zero value says that nothing was pushed yet.
type Pointer struct {
	Digest string    `json:"digest"`
	Pushed time.Time `json:"pushed"`
	By     string    `json:"by"` // who has pushed it, for people
	// Push is unique for each push: if the answer of a write was lost, it shows who wrote the
	// pointer.
	Push string `json:"push"`
}

// MovedError says that somebody else has pushed meanwhile.
type MovedError struct {
	Location s3url.URL
	Pointer  Pointer // the current pointer
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s has pushed bundle %.12s to %s meanwhile, at %s: see what differs with `terrapulse bundle diff`, and push again",
		e.Pointer.By, e.Pointer.Digest, e.Location, clock.UTC(e.Pointer.Pushed))
}

// Current returns the pointer.
func (b *Bucket) Current(ctx context.Context) (Pointer, error) {
	p, _, err := b.pointer(ctx)
	return p, err
}

// pointer returns the pointer and its ETag, which is "" if there is no pointer.
func (b *Bucket) pointer(ctx context.Context) (p Pointer, etag string, err error) {
	data, etag, err := b.get(ctx, pointerName, maxPointer)
	if err == nil && etag != "" {
		err = json.Unmarshal(data, &p)
		if err == nil && len(p.Digest) != len(digestOf(nil)) {
			err = errors.New("it contains no digest")
		}
		if err != nil {
			err = fmt.Errorf("the object is not what `terrapulse bundle push` writes: %w; push again after removing it", err)
		}
	}
	if err != nil {
		return p, etag, fmt.Errorf("read the pointer to the current bundle from %s: %w", b.url(pointerName), err)
	}
	return p, etag, nil
}

// Store stores the bundle, and does not move the pointer: it is not in force. It replaces nothing but
// a damaged object, so that a role may have the right to write new bundles alone.
func (b *Bucket) Store(ctx context.Context, bundle Bundle) error {
	name := zipName(bundle.Digest)
	write := func(ifNoneMatch *string) error {
		return b.put(ctx, &s3.PutObjectInput{ContentType: aws.String("application/zip"), IfNoneMatch: ifNoneMatch}, name, bundle.Zip)
	}
	err := write(aws.String("*"))
	if _, status := s3url.Code(err); status == http.StatusPreconditionFailed || status == http.StatusConflict {
		if _, damaged := b.Pull(ctx, bundle.Digest); damaged == nil {
			return nil
		}
		err = write(nil)
	}
	if err != nil {
		return fmt.Errorf("write bundle %s: %w", b.url(name), err)
	}
	return nil
}

// Push stores the bundle and moves the pointer to it. If the pointer names it already, moved is
// false. By is for people. If somebody else has moved the pointer meanwhile, it stays, and the
// error is a MovedError.
func (b *Bucket) Push(ctx context.Context, bundle Bundle, by string, now time.Time) (p Pointer, moved bool, err error) {
	was, etag, err := b.pointer(ctx)
	if err != nil {
		return was, false, err
	}
	if err := b.Store(ctx, bundle); err != nil {
		return was, false, err
	}
	if was.Digest == bundle.Digest {
		return was, false, nil
	}
	next := Pointer{Digest: bundle.Digest, Pushed: now.UTC().Truncate(time.Second), By: by, Push: uuid.NewString()}
	text, err := json.Marshal(next)
	if err != nil {
		return was, false, err
	}
	in := &s3.PutObjectInput{ContentType: aws.String("application/json")}
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &etag
	}
	// S3 answers with a conflict if two writes meet; one of them may be an earlier attempt of this
	// push.
	for range conflicts {
		if err = b.put(ctx, in, pointerName, text); err == nil {
			return next, true, nil
		}
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
			break
		}
		// Whatever the answer was, only the current pointer counts.
		is, tag, readErr := b.pointer(ctx)
		switch {
		case readErr != nil:
			return was, false, fmt.Errorf("move the pointer %s: %w", b.url(pointerName), errors.Join(err, readErr))
		case is.Push == next.Push:
			return next, true, nil
		case is.Digest == next.Digest:
			return is, false, nil
		case tag != etag:
			return is, false, &MovedError{b.Location, is}
		}
		if _, status := s3url.Code(err); status != http.StatusConflict {
			break
		}
	}
	return was, false, fmt.Errorf("move the pointer %s: %w", b.url(pointerName), err)
}

// conflicts limits the attempts of a write that meets another one.
const conflicts = 5

// Pull returns a bundle.
func (b *Bucket) Pull(ctx context.Context, digest string) (Bundle, error) {
	name := zipName(digest)
	data, etag, err := b.get(ctx, name, maxZip)
	if err == nil && etag == "" {
		err = &InvalidError{errors.New("the object does not exist: push the bundle again")}
	}
	if got := digestOf(data); err == nil && got != digest {
		err = &InvalidError{fmt.Errorf("its digest is %.12s: it is damaged, push the bundle again", got)}
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("read bundle %s: %w", b.url(name), err)
	}
	return Bundle{digest, data}, nil
}

// Load returns the configuration in a bundle, without its modules: they are unpacked for the
// checks, and removed. If the bundle is invalid, the error is an InvalidError.
func (b *Bucket) Load(ctx context.Context, digest string) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "terrapulse-bundle-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for bundle %.12s: %w", digest, err)
	}
	defer os.RemoveAll(dir)
	return b.LoadInto(ctx, digest, dir)
}

// LoadInto is Load into the folder dir, which must be empty or must not exist: the modules stay in
// it.
func (b *Bucket) LoadInto(ctx context.Context, digest, dir string) (*config.Config, error) {
	bundle, err := b.Pull(ctx, digest)
	if err != nil {
		return nil, err
	}
	cfg, err := Load(bundle.Zip, dir, config.Options{})
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", b.url(zipName(digest)), err)
	}
	return cfg, nil
}

func zipName(digest string) string { return folderName + "/" + digest + ".zip" }

func (b *Bucket) url(name string) string {
	return "s3://" + b.Location.Bucket + "/" + b.Location.Key(name)
}

// get reads an object. If it does not exist, the ETag is "".
func (b *Bucket) get(ctx context.Context, name string, most int64) (data []byte, etag string, err error) {
	out, err := b.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.Location.Bucket, Key: aws.String(b.Location.Key(name))})
	if code, _ := s3url.Code(err); code == "NoSuchKey" {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", b.Location.Explain(err)
	}
	defer out.Body.Close()
	size := aws.ToInt64(out.ContentLength)
	if size > most {
		return nil, "", &InvalidError{fmt.Errorf("the object has %d bytes, the limit is %d", size, most)}
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(out.Body, most+1)); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), aws.ToString(out.ETag), nil
}

// put writes an object.
func (b *Bucket) put(ctx context.Context, in *s3.PutObjectInput, name string, data []byte) error {
	in.Bucket, in.Key, in.Body = &b.Location.Bucket, aws.String(b.Location.Key(name)), bytes.NewReader(data)
	_, err := b.Client.PutObject(ctx, in)
	return b.Location.Explain(err)
}
