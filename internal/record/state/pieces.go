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
	"strings"
	"sync"
	"time"
)

// pieceSize is how many bytes of a long value one record holds,
// compressed: half of what one Apply may write.
const pieceSize = MaxBytes / 2

// MaxDetails is the number of entries up to which Inputs has details.
const MaxDetails = 20_000

func inputsPrefix(task string) string { return "inputs/" + element(task) + "/" }

// Inputs is what a task read when it was last applied.
type Inputs struct {
	// Elements are what the condition consisted of: a short digest by name. They
	// give the words for a change.
	Elements map[string]string
	Kind     string // of the condition
	// Others are the same of the module inputs, by kind.
	Others map[string]map[string]string
	// Details say more of the entries of all kinds, by name, for people. There are none
	// if there are more than MaxDetails entries.
	Details map[string]string
	// Sources are what condition and module inputs showed, sorted: what of it
	// is missing later counts as gone only if it is known not to be hidden.
	Sources []string
	// Backend is a digest of where the Terraform state was; "" where another system keeps it.
	Backend string
}

// Of returns the elements of the condition, or module input, of a kind.
func (i Inputs) Of(kind string) map[string]string {
	if kind == i.Kind {
		return i.Elements
	}
	return i.Others[kind]
}

// SaveInputs keeps what a task read when it was applied.
func SaveInputs(ctx context.Context, s Store, task string, inputs Inputs) error {
	return inputs.Pack(task).Save(ctx, s)
}

// PackedInputs are the inputs of a task in their stored form.
type PackedInputs struct {
	task  string
	value []byte
}

// Pack returns the stored form of the inputs.
func (i Inputs) Pack(task string) PackedInputs { return PackedInputs{task, i.encode()} }

// Save writes the inputs over those that were kept before, with one Apply for each piece.
func (p PackedInputs) Save(ctx context.Context, s Store) error {
	return savePieces(ctx, s, inputsPrefix(p.task), p.value, time.Time{})
}

const (
	// maxJoined is up to how many bytes inputs are written together with other changes.
	maxJoined = 32 << 10
	// maxJoinedPieces is over how many former pieces they are written so.
	maxJoinedPieces = 16
)

// Joins reports whether the inputs are small enough for Changes.
func (p PackedInputs) Joins() bool { return len(p.value) <= maxJoined }

// Changes returns the changes that Save would make, to be made together with others.
func (p PackedInputs) Changes(ctx context.Context, s Store) ([]Change, error) {
	prefix := inputsPrefix(p.task)
	old, err := s.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list what task %s was applied with: %w", p.task, err)
	}
	if n := min(len(old), maxJoinedPieces); n < len(old) {
		if err := remove(ctx, s, old[n:]...); err != nil {
			return nil, err
		}
		old = old[:n]
	}
	only := Record{Key: pieceKey(prefix, 0)}
	var changes []Change
	for _, rec := range old {
		if rec.Key == only.Key {
			only = rec
		} else {
			changes = append(changes, Delete(rec))
		}
	}
	return append(changes, only.write(p.value)), nil
}

// inputsHead is the first line of the stored form. An entry follows on each line, so
// that thousands of them take little memory: kind, name, digest and detail.
type inputsHead struct {
	Kind    string   `json:"kind,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Details bool     `json:"details,omitempty"`
	Backend string   `json:"backend,omitempty"`
}

func (i Inputs) encode() []byte {
	var packed bytes.Buffer
	zip, give := compressor(&packed)
	defer give()
	lines := json.NewEncoder(zip)
	_ = lines.Encode(inputsHead{i.Kind, i.Sources, i.Details != nil, i.Backend}) // texts, into a buffer
	for _, kind := range slices.Sorted(maps.Keys(i.Others)) {
		for _, name := range slices.Sorted(maps.Keys(i.Others[kind])) {
			_ = lines.Encode([]string{kind, name, i.Others[kind][name], i.Details[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Elements)) {
		line := []string{"", name, i.Elements[name]}
		if i.Kind != "" { // else it is a schedule: the module inputs have the details
			line = append(line, i.Details[name])
		}
		_ = lines.Encode(line)
	}
	_ = zip.Close()
	return packed.Bytes()
}

func decodeInputs(packed []byte) (Inputs, error) {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Inputs{}, err
	}
	var head inputsHead
	lines := json.NewDecoder(zip)
	if err := lines.Decode(&head); err != nil {
		return Inputs{}, err
	}
	inputs := Inputs{Kind: head.Kind, Sources: head.Sources, Backend: head.Backend}
	if head.Details {
		inputs.Details = map[string]string{}
	}
	byKind := map[string]map[string]string{}
	for {
		var line []string
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			inputs.Elements = byKind[""]
			if delete(byKind, ""); len(byKind) > 0 {
				inputs.Others = byKind
			}
			return inputs, nil
		case err != nil:
			return Inputs{}, err
		case len(line) < 3:
			return Inputs{}, fmt.Errorf("the line %q has too few fields", line)
		}
		kind, name := line[0], line[1]
		if byKind[kind] == nil {
			byKind[kind] = map[string]string{}
		}
		byKind[kind][name] = line[2]
		if head.Details && len(line) > 3 {
			inputs.Details[name] = line[3]
		}
	}
}

// ForgetInputs removes what SaveInputs kept: nothing is applied any more.
func ForgetInputs(ctx context.Context, s Store, task string) error {
	recs, err := s.List(ctx, inputsPrefix(task))
	if err != nil {
		return fmt.Errorf("list what task %s was applied with: %w", task, err)
	}
	return remove(ctx, s, recs...)
}

// MoveInputs returns the changes that move what a task was applied with to another name. They are made
// together with others, because a task must not have the inputs of a rename that was never written.
// What is too large for that is copied now, and ForgetInputs removes the original afterwards.
func MoveInputs(ctx context.Context, s Store, from, to string) ([]Change, error) {
	recs, err := s.List(ctx, inputsPrefix(from))
	if err != nil {
		return nil, fmt.Errorf("list what task %s was applied with: %w", from, err)
	}
	if len(recs) != 1 || len(recs[0].Value) > maxJoined {
		return nil, copyInputs(ctx, s, from, to, recs)
	}
	changes, err := PackedInputs{to, recs[0].Value}.Changes(ctx, s)
	return append(changes, Delete(recs[0])), err
}

// copyInputs keeps what a task was applied with, which is in these records, under another name, too.
func copyInputs(ctx context.Context, s Store, from, to string, recs []Record) error {
	err := ForgetInputs(ctx, s, to)
	for _, rec := range recs {
		if err == nil {
			_, err = s.Apply(ctx, Create(inputsPrefix(to)+strings.TrimPrefix(rec.Key, inputsPrefix(from)), rec.Value))
		}
	}
	if err != nil {
		return fmt.Errorf("copy what task %s was applied with: %w", from, err)
	}
	return nil
}

// ErrTorn is what LoadInputs returns if a writer died before it had written everything.
var ErrTorn = errors.New("the record is incomplete; the next successful run replaces it")

// LoadInputs returns what SaveInputs kept, the zero Inputs if nothing is.
func LoadInputs(ctx context.Context, s Store, task string) (Inputs, error) {
	packed, err := loadPieces(ctx, s, inputsPrefix(task))
	if err != nil || packed == nil {
		return Inputs{}, err
	}
	inputs, err := decodeInputs(packed)
	if err != nil {
		return Inputs{}, fmt.Errorf("unpack the inputs of task %s: %w (%w)", task, ErrTorn, err)
	}
	return inputs, nil
}

// compressors are kept, as each has nearly a megabyte of tables.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compressor returns a compressor, until give is called.
func compressor(to io.Writer) (zip *gzip.Writer, give func()) {
	zip = compressors.Get().(*gzip.Writer)
	zip.Reset(to)
	return zip, func() { compressors.Put(zip) }
}

// Pack compresses a text.
func Pack(text []byte) []byte {
	var packed bytes.Buffer
	zip, give := compressor(&packed)
	defer give()
	_, _ = zip.Write(text) // a buffer takes everything
	_ = zip.Close()
	return packed.Bytes()
}

// unpack returns the text that Pack has compressed. Of an incomplete one it returns
// the beginning and io.ErrUnexpectedEOF.
func unpack(packed []byte) ([]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zip)
}

// savePieces writes a value of any size as records below prefix, over what was
// there. Each piece is one Apply. A reader detects a mixture of two values by the
// checksum of gzip.
func savePieces(ctx context.Context, s Store, prefix string, value []byte, until time.Time) error {
	old, err := s.List(ctx, prefix)
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, rec := range old {
		versions[rec.Key] = rec.Version
	}
	n := 0
	for piece := range slices.Chunk(value, pieceSize) {
		key := pieceKey(prefix, n)
		if _, err := s.Apply(ctx, Record{Key: key, Version: versions[key]}.write(piece).Until(until)); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		n++
	}
	return remove(ctx, s, slices.DeleteFunc(old, func(rec Record) bool { return rec.Key < pieceKey(prefix, n) })...)
}

func pieceKey(prefix string, n int) string { return fmt.Sprintf("%s%06d", prefix, n) }

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
		prefix := textsPrefix(task, id)
		logs, err := s.List(ctx, prefix)
		if err != nil {
			return fmt.Errorf("list the output of run %s: %w", id, err)
		}
		run, err := Read[Run](ctx, s, RunKey(task, id))
		if err != nil {
			return fmt.Errorf("read run %s: %w", id, err)
		}
		forgotten := slices.DeleteFunc(logs, func(rec Record) bool { return !isText(rec, prefix) })
		if run.Exists() {
			forgotten = append(forgotten, run.Record)
		}
		if err := remove(ctx, s, forgotten...); err != nil {
			return err
		}
	}
	return nil
}

// textsPrefix is how the keys of what is kept of a run begin, its output and its plan. Those of
// another run may begin so, too: see isText.
func textsPrefix(task, run string) string { return strings.TrimSuffix(logPrefix(task, run), "/") }

// isText reports whether a record is a part of a text of the run with this textsPrefix: texts are
// named "RUN" or "RUN-…".
func isText(rec Record, prefix string) bool {
	rest, ok := strings.CutPrefix(rec.Key, prefix)
	return ok && rest != "" && strings.Contains("/-", rest[:1])
}

// Erase removes all that is kept of a task except its own record: its runs, their
// output, its inputs, its approvals and its definition. Plan runs stay until they expire: one may plan a new task
// of this name.
func Erase(ctx context.Context, s Store, task string) error {
	// What is kept of runs is listed first. Whose run is not listed below is of no plan run: that has
	// its record before anything else.
	var listed []Record
	for _, prefix := range []string{"log/" + element(task) + "/", inputsPrefix(task), approvalsOf(task)} {
		recs, err := s.List(ctx, prefix)
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		listed = append(listed, recs...)
	}
	runs, corrupt, err := ReadEach[Run](ctx, s, RunPrefix(task))
	if err != nil {
		return fmt.Errorf("list the runs of task %s: %w", task, err)
	}
	var erased []Record
	var kept []string // prefixes
	for _, err := range corrupt {
		erased = append(erased, err.Record)
	}
	for _, run := range runs {
		if run.Data.Kind == KindPlan {
			kept = append(kept, textsPrefix(task, run.Data.ID))
		} else {
			erased = append(erased, run.Record)
		}
	}
	for _, rec := range listed {
		if !slices.ContainsFunc(kept, func(prefix string) bool { return isText(rec, prefix) }) {
			erased = append(erased, rec)
		}
	}
	definition, err := s.Get(ctx, DefinitionKey(task))
	switch {
	case err == nil:
		erased = append(erased, definition)
	case !errors.Is(err, ErrNotFound):
		return fmt.Errorf("read what task %s was applied with: %w", task, err)
	}
	return remove(ctx, s, erased...)
}

// remove deletes the records that are not gone already.
func remove(ctx context.Context, s Store, recs ...Record) error {
	for _, rec := range recs {
		_, err := s.Apply(ctx, Delete(rec))
		if conflict := new(ConflictError); err != nil && (!errors.As(err, &conflict) || conflict.Current != nil) {
			return fmt.Errorf("remove %s: %w", rec.Key, err)
		}
	}
	return nil
}
