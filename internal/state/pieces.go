package state

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// pieceSize is how many bytes of a long value one record holds,
// compressed: half of what one Apply may write.
const pieceSize = MaxBytes / 2

func inputsPrefix(task string) string { return "inputs/" + element(task) + "/" }

// SaveInputs keeps what a task's condition consisted of when it was applied
// (element name to short digest), so that a later tick can say what was added,
// removed and changed. It decides nothing: a failure costs words, not changes.
func SaveInputs(ctx context.Context, s Store, task string, elements map[string]string) error {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := json.NewEncoder(zip).Encode(elements); err != nil {
		return fmt.Errorf("pack the elements of task %s: %w", task, err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("pack the elements of task %s: %w", task, err)
	}
	return savePieces(ctx, s, inputsPrefix(task), packed.Bytes(), time.Time{})
}

// LoadInputs returns what SaveInputs kept, nil if nothing is.
func LoadInputs(ctx context.Context, s Store, task string) (map[string]string, error) {
	packed, err := loadPieces(ctx, s, inputsPrefix(task))
	if err != nil || packed == nil {
		return nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the elements of task %s: %w", task, err)
	}
	var elements map[string]string
	if err := json.NewDecoder(zip).Decode(&elements); err != nil {
		return nil, fmt.Errorf("unpack the elements of task %s: %w", task, err)
	}
	return elements, nil
}

// savePieces writes a value of any size as records below prefix, over what was
// there. Pieces are written one Apply each; the reader of a mixture notices by
// the checksum that gzip keeps.
func savePieces(ctx context.Context, s Store, prefix string, value []byte, until time.Time) error {
	old, err := s.List(ctx, prefix)
	if err != nil {
		return err
	}
	there := map[string]Record{}
	for _, rec := range old {
		there[rec.Key] = rec
	}
	for i := 0; i == 0 || len(value) > 0; i++ {
		n := min(len(value), pieceSize)
		key := fmt.Sprintf("%s%06d", prefix, i)
		change := Create(key, value[:n])
		if rec, ok := there[key]; ok {
			change = Replace(rec, value[:n])
			delete(there, key)
		}
		if !until.IsZero() {
			change = change.Until(until)
		}
		if _, err := s.Apply(ctx, change); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		value = value[n:]
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if _, err := s.Apply(ctx, Delete(there[key])); err != nil {
			return fmt.Errorf("remove %s: %w", key, err)
		}
	}
	return nil
}

// loadPieces returns what savePieces wrote, nil if there is nothing.
func loadPieces(ctx context.Context, s Store, prefix string) ([]byte, error) {
	recs, err := s.List(ctx, prefix)
	if err != nil || len(recs) == 0 {
		return nil, err
	}
	var value bytes.Buffer
	for _, rec := range recs {
		value.Write(rec.Value)
	}
	return value.Bytes(), nil
}

// MaxLog is how much of a run's output is kept, in bytes before compression.
const MaxLog = 4 << 20

// Output collects what a run prints, for SaveLog: of more than MaxLog bytes the
// middle is left out. It is safe for concurrent use.
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

func logPrefix(task, run string) string { return "log/" + element(task) + "/" + element(run) + "/" }

// SaveLog keeps the output of a run in the store, if until is set until then.
func SaveLog(ctx context.Context, s Store, task, run string, output []byte, until time.Time) error {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(output); err != nil {
		return fmt.Errorf("pack the output of run %s: %w", run, err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("pack the output of run %s: %w", run, err)
	}
	return savePieces(ctx, s, logPrefix(task, run), packed.Bytes(), until)
}

// LoadLog returns the kept output of a run, or ErrNotFound.
func LoadLog(ctx context.Context, s Store, task, run string) ([]byte, error) {
	packed, err := loadPieces(ctx, s, logPrefix(task, run))
	if err != nil {
		return nil, err
	}
	if packed == nil {
		return nil, ErrNotFound
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the output of run %s: %w", run, err)
	}
	output, err := io.ReadAll(zip)
	if err != nil {
		return nil, fmt.Errorf("unpack the output of run %s: %w", run, err)
	}
	return output, nil
}

// Forget removes runs with their output. It is called for what Conclude
// returned, before the shortened history is written: after a crash in between
// the same runs are forgotten once more, and none is left behind unlisted.
func Forget(ctx context.Context, s Store, task string, runs []string) error {
	for _, id := range runs {
		logs, err := s.List(ctx, logPrefix(task, id))
		if err != nil {
			return fmt.Errorf("list the output of run %s: %w", id, err)
		}
		for _, rec := range logs {
			if err := remove(ctx, s, rec); err != nil {
				return err
			}
		}
		run, err := Read[Run](ctx, s, RunKey(task, id))
		if err != nil {
			return fmt.Errorf("read run %s: %w", id, err)
		}
		if !run.Exists() {
			continue
		}
		if err := remove(ctx, s, run.Record); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a record, if nobody else was faster.
func remove(ctx context.Context, s Store, rec Record) error {
	_, err := s.Apply(ctx, Delete(rec))
	if conflict := new(ConflictError); errors.As(err, &conflict) && conflict.Current == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", rec.Key, err)
	}
	return nil
}
