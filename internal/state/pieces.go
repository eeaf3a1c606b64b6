package state

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
