package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// processors are the folders of the function's zip, by the parameter Architecture.
var processors = map[string]string{"arm64": "aarch64", "x86_64": "x86_64"}

// programs puts the program of the containers, with the CA certificates from layers/trust, into the
// bucket. A program is an archive whose name is its SHA-256.
type programs struct {
	Client   *s3.Client
	Folder   string // of the function's zip
	Trust    string // folder of the layer
	Patience time.Duration
	Log      *slog.Logger
}

// kept is the number of programs that an update leaves in the bucket. Containers that were started
// before a deployment, or before one that is rolled back, load an older program.
const kept = 3

// handle installs the program of this version. Deleting the resource deletes all programs.
func (p *programs) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	at, err := s3url.Parse(property(e.ResourceProperties, "Location"))
	if err != nil {
		return e.PhysicalResourceID, nil, err
	}
	id = at.String()
	if e.RequestType == cfn.RequestDelete {
		// After a failed Create, CloudFormation deletes an id that is not a location.
		if e.PhysicalResourceID == id {
			err = patiently(ctx, p.Patience, func(ctx context.Context) error { return p.remove(ctx, at, "", 0) })
		}
		if isDenied(err) { // a failure would keep the stack from being deleted
			p.Log.Warn("cannot remove programs: they stay in the bucket", "location", at.String(), "error", err)
			err = nil
		}
		return e.PhysicalResourceID, nil, err
	}
	archive, err := pack(filepath.Join(p.Folder, processors[property(e.ResourceProperties, "Architecture")], "runner"), p.Trust)
	if err != nil {
		return id, nil, err
	}
	sum := sha256.Sum256(archive)
	name := hex.EncodeToString(sum[:])
	err = patiently(ctx, p.Patience, func(ctx context.Context) error {
		_, err := p.Client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &at.Bucket, Key: aws.String(at.Key(name)), Body: bytes.NewReader(archive),
			ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum[:])),
		})
		return err
	})
	if err != nil {
		return id, nil, fmt.Errorf("put the program into %s: %w", at, err)
	}
	p.Log.Info("program installed", "location", at.String(), "sha256", name, "bytes", len(archive))
	if e.RequestType == cfn.RequestUpdate {
		if err := p.remove(ctx, at, at.Key(name), kept); err != nil {
			p.Log.Warn("cannot remove programs: they stay in the bucket", "location", at.String(), "error", err)
		}
	}
	return id, map[string]any{"Url": at.String() + "/" + name, "Sha256": name}, nil
}

// pack returns an archive with the program, as runner, and the certificates, below trust/. The same
// files give the same bytes.
func pack(program, trust string) ([]byte, error) {
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	w := tar.NewWriter(zip)
	add := func(name, file string, mode int64) error {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	if err := add("runner", program, 0o755); err != nil {
		return nil, fmt.Errorf("pack the program: %w", err)
	}
	files, err := os.ReadDir(trust)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	for _, f := range files { // in the order of their names
		if ext := filepath.Ext(f.Name()); ext != ".pem" && ext != ".crt" {
			continue
		}
		if err := add("trust/"+f.Name(), filepath.Join(trust, f.Name()), 0o644); err != nil {
			return nil, fmt.Errorf("pack the certificates: %w", err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("pack the program: %w", err)
	}
	return archive.Bytes(), nil
}

// remove removes all programs but the current and the newest others, with all their versions.
func (p *programs) remove(ctx context.Context, at s3url.URL, current string, keep int) error {
	newest := map[string]time.Time{} // by key
	var versions []types.ObjectIdentifier
	pages := s3.NewListObjectVersionsPaginator(p.Client, &s3.ListObjectVersionsInput{Bucket: &at.Bucket, Prefix: aws.String(at.Prefix + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if code, _ := s3url.Code(err); code == "NoSuchBucket" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the programs below %s: %w", at, err)
		}
		for _, v := range page.Versions {
			versions = append(versions, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
			if aws.ToBool(v.IsLatest) {
				newest[*v.Key] = aws.ToTime(v.LastModified)
			}
		}
		for _, m := range page.DeleteMarkers {
			versions = append(versions, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
	}
	if _, ok := newest[current]; ok {
		newest[current] = time.Now().Add(time.Hour) // first, also within a second
	}
	keys := slices.SortedFunc(maps.Keys(newest), func(a, b string) int { return newest[b].Compare(newest[a]) })
	keys = keys[:min(keep, len(keys))]
	versions = slices.DeleteFunc(versions, func(v types.ObjectIdentifier) bool { return slices.Contains(keys, *v.Key) })
	for chunk := range slices.Chunk(versions, 1000) {
		out, err := p.Client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &at.Bucket, Delete: &types.Delete{Objects: chunk, Quiet: aws.Bool(true)}})
		if err != nil {
			return fmt.Errorf("delete the programs below %s: %w", at, err)
		}
		if len(out.Errors) > 0 {
			first := out.Errors[0]
			return fmt.Errorf("delete %s: %w", aws.ToString(first.Key), &smithy.GenericAPIError{Code: aws.ToString(first.Code), Message: aws.ToString(first.Message)})
		}
	}
	return nil
}
