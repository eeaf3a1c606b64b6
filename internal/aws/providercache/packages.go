package providercache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/terrapulse/terrapulse/internal/base/registry"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// packages are the archives of packages by their SHA-256: in the bucket, and for a short time on
// disk.
type packages struct {
	bucket   *s3.Client
	location s3url.URL
	client   *http.Client
	log      *slog.Logger

	ctx    context.Context // of loads, which continue after a request
	cancel context.CancelFunc
	loads  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	origin map[string]string // URLs by checksum, as registries have named them
	open   map[string]*archive
}

// loadFor limits the time in which an archive is downloaded and put into the bucket.
const loadFor = 15 * time.Minute

// archive is an archive on disk while something uses it.
type archive struct {
	users int
	ready chan struct{} // closed when file or err is set
	file  *os.File
	size  int64
	err   error
}

func newPackages(bucket *s3.Client, location s3url.URL, client *http.Client, log *slog.Logger) *packages {
	ctx, cancel := context.WithCancel(context.Background())
	return &packages{bucket: bucket, location: location, client: client, log: log, ctx: ctx, cancel: cancel,
		origin: map[string]string{}, open: map[string]*archive{}}
}

// close waits for archives that are put into the bucket, until ctx ends.
func (p *packages) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	p.loads.Wait()
	p.cancel()
}

// learn notes where the package with a checksum can be downloaded.
func (p *packages) learn(sum, from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.origin[sum] = from
}

// whence returns where the package with a checksum can be downloaded; "" if no registry has named it.
func (p *packages) whence(sum string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.origin[sum]
}

// get returns the archive with a checksum. All callers at a time share one download. Call release
// after use.
func (p *packages) get(ctx context.Context, sum, from string) (content io.ReadSeeker, release func(), err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, nil, errors.New("the container ends")
	}
	a := p.open[sum]
	if a == nil {
		a = &archive{ready: make(chan struct{}), users: 1} // the load
		p.open[sum] = a
		p.loads.Go(func() {
			defer p.release(sum, a)
			p.load(a, sum, from)
		})
	}
	a.users++
	p.mu.Unlock()
	release = func() { p.release(sum, a) }
	select {
	case <-a.ready:
	case <-ctx.Done():
		release()
		return nil, nil, ctx.Err()
	}
	if a.err != nil {
		release()
		return nil, nil, a.err
	}
	return io.NewSectionReader(a.file, 0, a.size), release, nil
}

// release removes the archive from the disk after its last use.
func (p *packages) release(sum string, a *archive) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	delete(p.open, sum)
	if a.file != nil {
		_ = a.file.Close()
		_ = os.Remove(a.file.Name())
	}
}

// load gets an archive from the bucket, or else from its origin. Then it puts it into the bucket,
// while Terraform uses it.
func (p *packages) load(a *archive, sum, from string) {
	ctx, cancel := context.WithTimeout(p.ctx, loadFor)
	defer cancel()
	key := p.location.Key(sum)
	var cached bool
	if a.file, a.err = os.CreateTemp("", "provider-*.zip"); a.err == nil {
		cached, a.err = p.download(ctx, a, sum, key, from)
	}
	close(a.ready)
	if cached || a.err != nil {
		return
	}
	_, err := p.bucket.PutObject(ctx, &s3.PutObjectInput{Bucket: &p.location.Bucket, Key: &key,
		Body: io.NewSectionReader(a.file, 0, a.size), ContentLength: &a.size, ContentType: aws.String("application/zip")})
	if err != nil {
		p.log.Warn("a provider was not put into the bucket, and the next container downloads it again", "key", key, "error", p.location.Explain(err))
	}
}

// download writes an archive to its file, and returns whether it was in the bucket.
func (p *packages) download(ctx context.Context, a *archive, sum, key, from string) (cached bool, err error) {
	object, err := p.bucket.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.location.Bucket, Key: &key})
	if err == nil {
		err = a.fill(object.Body, sum)
	}
	if err == nil {
		p.log.Info("provider read from the bucket", "url", from, "bytes", a.size)
		return true, nil
	}
	if !errors.As(err, new(*types.NoSuchKey)) {
		p.log.Warn("a provider in the bucket cannot be used, and is downloaded instead", "key", key, "url", from, "error", p.location.Explain(err))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return false, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return false, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return false, &registry.StatusError{Code: response.StatusCode, URL: from}
	}
	if err := a.fill(response.Body, sum); err != nil {
		return false, fmt.Errorf("download %s: %w", from, err)
	}
	p.log.Info("provider downloaded", "url", from, "bytes", a.size)
	return false, nil
}

// fill writes a source to the file of the archive, verifies its checksum, and closes the source.
func (a *archive) fill(source io.ReadCloser, sum string) error {
	defer source.Close()
	if err := a.file.Truncate(0); err != nil {
		return err
	}
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	var err error
	if a.size, err = io.Copy(io.MultiWriter(a.file, h), source); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("its SHA-256 is %s, not %s", got, sum)
	}
	return nil
}
