package state

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// MaxLog is how much of a run's output is kept, in bytes before compression.
const MaxLog = 4 << 20

// livePiece is how many compressed bytes one record of a growing log holds at
// most. Each Append rewrites the last record, so a record is small: DynamoDB
// charges for each KB that is written.
const livePiece = 16 << 10

// Output collects what a run prints: of more than MaxLog bytes the middle is
// left out. It is safe for concurrent use.
type Output struct {
	mu         sync.Mutex
	head, tail []byte
	dropped    int // bytes between head and tail
}

// Write implements io.Writer. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	const half = MaxLog / 2
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(half-len(o.head), len(p))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if len(o.tail) > 2*half { // not each time: the rest has to be moved
		o.dropped += len(o.tail) - half
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-half:]...)
	}
	return len(p), nil
}

// Bytes returns what is kept, with a line where something was left out.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail[max(0, len(o.tail)-MaxLog/2):]
	dropped := o.dropped + len(o.tail) - len(tail)
	if dropped == 0 {
		return slices.Concat(o.head, tail)
	}
	return slices.Concat(o.head, fmt.Appendf(nil, "\n… %d bytes left out …\n", dropped), tail)
}

// Head returns what was printed so far, in whole lines of the first MaxLog/2
// bytes, from an offset on. Whatever is printed later, Bytes begins with it.
func (o *Output) Head(offset int) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.head[offset:max(offset, 1+bytes.LastIndexByte(o.head, '\n'))])
}

func logPrefix(task, run string) string { return "log/" + element(task) + "/" + element(run) + "/" }

// LogWriter keeps the output of a run in the store while the run goes on. Its
// records hold one gzip stream that only grows, so that a reader finds the
// beginning of the whole output at any time. It is for one goroutine.
type LogWriter struct {
	store  Store
	prefix string
	until  time.Time

	zip    *gzip.Writer
	packed bytes.Buffer // compressed, and not in a full record yet
	piece  int          // number of the record that packed begins
	last   string       // version of that record as it was last written; "" if it was not
	stored int          // bytes of packed that last holds
	length int          // bytes of text that were taken
}

// NewLogWriter returns a writer of the output of a run, if until is set until
// then. Nothing is written yet.
func NewLogWriter(s Store, task, run string, until time.Time) *LogWriter {
	l := &LogWriter{store: s, prefix: logPrefix(task, run), until: until}
	l.zip = gzip.NewWriter(&l.packed)
	return l
}

// Len is how many bytes of text were given to Append and Close.
func (l *LogWriter) Len() int { return l.length }

// Append adds text to the log. After an error the text counts as taken: it is
// written with what follows.
func (l *LogWriter) Append(ctx context.Context, text []byte) error {
	if len(text) > 0 {
		l.length += len(text)
		_, _ = l.zip.Write(text) // a buffer takes everything
		_ = l.zip.Flush()
	}
	return l.write(ctx, livePiece)
}

// Close adds the rest of the text, and ends the log.
func (l *LogWriter) Close(ctx context.Context, rest []byte) error {
	l.length += len(rest)
	_, _ = l.zip.Write(rest)
	_ = l.zip.Close()
	return l.write(ctx, pieceSize)
}

// write puts into records what is not in one yet, up to size bytes in each.
func (l *LogWriter) write(ctx context.Context, size int) error {
	for l.packed.Len() > l.stored {
		n := min(l.packed.Len(), size)
		if err := l.put(ctx, l.packed.Bytes()[:n]); err != nil {
			return err
		}
		l.stored = n
		if n == size {
			l.packed.Next(n)
			l.piece, l.last, l.stored = l.piece+1, "", 0
		}
	}
	return nil
}

// put writes the last record.
func (l *LogWriter) put(ctx context.Context, value []byte) error {
	there := Record{Key: pieceKey(l.prefix, l.piece), Version: l.last}
	value = slices.Clone(value)
	written, err := l.store.Apply(ctx, there.write(value).Until(l.until))
	if conflict := new(ConflictError); errors.As(err, &conflict) {
		// An earlier write whose answer was lost: nobody else writes this record.
		there.Version = ""
		if conflict.Current != nil {
			there = *conflict.Current
		}
		written, err = l.store.Apply(ctx, there.write(value).Until(l.until))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", there.Key, err)
	}
	l.last = written[0].Version
	return nil
}

// SaveLog keeps a text of a run in the store, if until is set until then.
func SaveLog(ctx context.Context, s Store, task, run string, output []byte, until time.Time) error {
	return savePieces(ctx, s, logPrefix(task, run), Pack(output), until)
}

// Kept is where a text of a run is kept: under a name in the store, or at a URL
// outside of it. The zero Kept says that it is not kept.
type Kept struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Load returns the text, or ErrNotFound. elsewhere loads a URL; it is nil if the
// store keeps all texts itself.
func (k Kept) Load(ctx context.Context, s Store, task string, elsewhere func(ctx context.Context, url string) ([]byte, error)) ([]byte, error) {
	switch {
	case k == Kept{}:
		return nil, ErrNotFound
	case k.URL == "":
		return LoadLog(ctx, s, task, k.Name)
	case elsewhere == nil:
		return nil, fmt.Errorf("load %s: this kind of store keeps all output itself", k.URL)
	}
	return elsewhere(ctx, k.URL)
}

// LoadLog returns the kept output of a run, or ErrNotFound. While the run is under
// way, or if its runner died, it is what was written until now.
func LoadLog(ctx context.Context, s Store, task, run string) ([]byte, error) {
	packed, err := loadPieces(ctx, s, logPrefix(task, run))
	if err != nil {
		return nil, err
	}
	if packed == nil {
		return nil, ErrNotFound
	}
	output, err := unpack(packed)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("unpack the output of run %s: %w", run, err)
	}
	return output, nil
}
