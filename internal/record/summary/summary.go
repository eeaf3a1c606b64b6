// Package summary keeps a row for each task's record, so that a tick reads the records of the tasks
// that concern it, and no others. What people read has them, too: it lists tasks at rest by their rows,
// and reads the records of those that are shown.
//
// Keep wraps a store. Whatever changes records of tasks through it also writes their new rows as one
// more record, a note, in the same conditional write: so the rows are never behind the records. The
// leader folds notes into shards, each of which has the rows of many tasks. A reader takes the notes
// first, then the head and the shards: what was folded in between is in both, and of two rows the one
// of the higher revision counts. Only a removal has no revision. Until it is folded, the record of its
// task is read.
//
// Each write that removes notes changes the head: as long as a reader finds the head that it knows, it
// has seen every note that was removed. The summary can be rebuilt from the records at any time, and is
// when it has no head.
package summary

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Prefix is the collection of the summary's records.
const Prefix = "summary/"

const (
	notesPrefix = Prefix + "notes/" // sorts before shardPrefix
	shardPrefix = Prefix + "tasks/"

	// Head sorts after all notes, whose names are UUIDs of version 7. A summary without it is none.
	Head = notesPrefix + "head"

	// shards is how many records have the rows: with 10,000 tasks each has some 160, in 5 KB.
	shards = 64
)

// head counts the writes that removed notes.
type head struct {
	Writes uint64 `json:"writes"`
}

// note is what one write changed.
type note struct {
	Rows []Row `json:"rows"`
}

// shard has the rows of the tasks whose names have its hash.
type shard struct {
	Rows []Row `json:"rows"`
}

func shardKey(task string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, task)
	return fmt.Sprintf("%s%02d", shardPrefix, h.Sum32()%shards)
}

// Summary is what a process knows of the rows. It is not safe for concurrent use.
type Summary struct {
	known  bool              // the rows are those of the store when it was read last
	head   string            // version of its record; empty if there is none
	writes uint64            // as in it
	rows   map[string]Row    // by task
	notes  map[string][]Row  // that are not folded, by key
	notice map[string]string // versions of the notes
	shards map[string]string // versions of the shards, by key
	read   map[string][]Row  // rows of the shards as they were read, by key and version
	unsure map[string]bool   // tasks whose records were removed, and perhaps made again
}

// Read brings the rows up to date. It reports whether there is a summary: without one, Rebuild makes it.
func (s *Summary) Read(ctx context.Context, store state.Store) (bool, error) {
	if s.known {
		records, err := store.List(ctx, notesPrefix)
		if err != nil {
			return false, fmt.Errorf("read what has changed about tasks: %w", err)
		}
		if last := len(records) - 1; last >= 0 && records[last].Key == Head && records[last].Version == s.head {
			err := s.take(records[:last])
			return s.known, err
		}
	}
	return s.readAll(ctx, store)
}

// Forget makes the next Read read everything.
func (s *Summary) Forget() { *s = Summary{} }

func (s *Summary) readAll(ctx context.Context, store state.Store) (bool, error) {
	records, err := store.List(ctx, Prefix)
	if err != nil {
		return false, fmt.Errorf("read the summary of all tasks: %w", err)
	}
	before := s.read
	*s = Summary{rows: make(map[string]Row, len(s.rows)), notes: map[string][]Row{}, notice: map[string]string{}, shards: map[string]string{}, read: map[string][]Row{}, unsure: map[string]bool{}}
	var notes []state.Record
	for _, rec := range records {
		switch {
		case rec.Key == Head:
			h, err := state.Decode[head](rec)
			if s.head, s.writes = rec.Version, h.Data.Writes; err == nil {
				s.known = true
			} else if err := unlessCorrupt(err); err != nil {
				return false, err
			}
		case strings.HasPrefix(rec.Key, notesPrefix):
			notes = append(notes, rec)
		default:
			rows, err := s.unpacked(rec, before)
			if err != nil {
				s.known = false
			}
			if err := unlessCorrupt(err); err != nil {
				return false, err
			}
			s.shards[rec.Key] = rec.Version
			for _, row := range rows {
				s.rows[row.Task] = row
			}
		}
	}
	err = s.take(notes)
	return s.known, err
}

// unpacked returns the rows of a shard. A fold changes few of them: the others were unpacked before.
func (s *Summary) unpacked(rec state.Record, before map[string][]Row) ([]Row, error) {
	version := rec.Key + " " + rec.Version
	rows, same := before[version]
	if !same {
		var err error
		if rows, err = unpack(rec); err != nil {
			return nil, err
		}
	}
	s.read[version] = rows
	return rows, nil
}

// unlessCorrupt returns an error, unless it says that a record cannot be decoded: that is made anew.
func unlessCorrupt(err error) error {
	if errors.As(err, new(*state.CorruptError)) {
		return nil
	}
	return err
}

// take adds the notes that are not known yet.
func (s *Summary) take(records []state.Record) error {
	for _, rec := range records {
		if _, known := s.notes[rec.Key]; known {
			continue
		}
		n, err := state.Decode[note](rec)
		if err != nil {
			s.known, n.Data.Rows = false, nil
		}
		if err := unlessCorrupt(err); err != nil {
			return err
		}
		s.notes[rec.Key], s.notice[rec.Key] = n.Data.Rows, rec.Version
		for _, row := range n.Data.Rows {
			s.add(row)
		}
	}
	return nil
}

func (s *Summary) add(row Row) {
	switch {
	case row.Gone:
		s.unsure[row.Task] = true
		s.rows[row.Task] = Row{Task: row.Task}
	case s.unsure[row.Task]:
	case row.Revision > s.rows[row.Task].Revision:
		s.rows[row.Task] = row
	}
}

// Row returns the row of a task; a task without a record has none. A row without a revision says
// nothing: there may be no record any more.
func (s *Summary) Row(task string) (Row, bool) {
	row, ok := s.rows[task]
	return row, ok
}

// Rows returns all rows, in no order.
func (s *Summary) Rows() iter.Seq[Row] { return maps.Values(s.rows) }

// maxNotes is how many notes there are before they are folded: each non-idle tick reads them.
const maxNotes = 15

// ChangesAtOnce is how many records one write of a fold changes. The simulation has folds of several writes with fewer.
var ChangesAtOnce = 40

// Full reports whether there are so many notes that Fold moves them.
func (s *Summary) Full() bool { return s.known && len(s.notes) > maxNotes }

// Fold moves the notes into the shards if there are many. It makes its last write with last, whose
// answer may lack the records.
func (s *Summary) Fold(ctx context.Context, store state.Store, apply, last state.Apply) error {
	if !s.Full() {
		return nil
	}
	if err := s.settle(ctx, store); err != nil {
		return err
	}
	concerned := map[string]bool{}
	for _, rows := range s.notes {
		for _, row := range rows {
			concerned[shardKey(row.Task)] = true
		}
	}
	return s.write(ctx, apply, last, slices.Sorted(maps.Keys(concerned)))
}

// settle reads the records of tasks that were removed, and perhaps made again.
func (s *Summary) settle(ctx context.Context, store state.Store) error {
	for _, task := range slices.Sorted(maps.Keys(s.unsure)) {
		record, corrupt, err := state.ReadAnyway[state.Task](ctx, store, state.TaskKey(task))
		if err != nil {
			return fmt.Errorf("read the record of task %s: %w", task, err)
		}
		switch {
		case corrupt != nil:
		case !record.Exists():
			delete(s.rows, task)
		default:
			s.rows[task] = Of(task, record.Data)
		}
	}
	return nil
}

// Rebuild makes the rows anew from the records of all tasks, and writes what differs. It returns the
// tasks whose rows were wrong.
func (s *Summary) Rebuild(ctx context.Context, apply state.Apply, tasks map[string]state.Stored[state.Task], corrupt map[string]error) ([]string, error) {
	before, concerned := s.rows, map[string]bool{}
	var wrong []string
	s.rows, s.unsure = make(map[string]Row, len(tasks)), map[string]bool{}
	for task, record := range tasks {
		if !record.Exists() {
			continue
		}
		row := Row{Task: task}
		if corrupt[task] == nil {
			row = Of(task, record.Data)
		}
		s.rows[task] = row
	}
	for task, row := range s.rows {
		if was, known := before[task]; !known || was != row {
			wrong, concerned[shardKey(task)] = append(wrong, task), true
		}
	}
	for task := range before {
		if _, there := s.rows[task]; !there {
			wrong, concerned[shardKey(task)] = append(wrong, task), true
		}
	}
	for _, rows := range s.notes {
		for _, row := range rows {
			concerned[shardKey(row.Task)] = true
		}
	}
	if !s.known { // shards may be damaged, or lost since they were read
		for key := range s.shards {
			concerned[key] = true
		}
	}
	slices.Sort(wrong)
	if s.known && len(wrong) == 0 && len(s.notes) <= maxNotes {
		return nil, nil
	}
	return wrong, s.write(ctx, apply, apply, slices.Sorted(maps.Keys(concerned)))
}

// write writes shards, and then removes the notes, which they contain. After an error, or if last does
// not return the records, the next Read reads everything.
func (s *Summary) write(ctx context.Context, apply, last state.Apply, keys []string) (err error) {
	defer func() {
		if err != nil {
			s.Forget()
			err = fmt.Errorf("write the summary of all tasks: %w", err)
		}
	}()
	byShard := map[string][]Row{}
	for _, row := range s.rows {
		key := shardKey(row.Task)
		byShard[key] = append(byShard[key], row)
	}
	var changes []state.Change
	size := 0
	complete := true
	flush := func(apply state.Apply, ends bool) error {
		if s.writes++; ends || s.head != "" { // a new summary is known when all of it is written
			changes = append(changes, change(Head, s.head, state.Encode(head{s.writes})))
		}
		written, err := apply(ctx, changes...)
		complete = complete && len(written) == len(changes)
		for _, rec := range written {
			if strings.HasPrefix(rec.Key, shardPrefix) {
				s.shards[rec.Key] = rec.Version
			}
			if rec.Key == Head {
				s.head = rec.Version
			}
		}
		changes, size = nil, 0
		return err
	}
	add := func(c state.Change) error {
		if n := len(c.Key) + len(c.Value); len(changes) == ChangesAtOnce || size+n > state.MaxBytes/2 && len(changes) > 0 {
			if err := flush(apply, false); err != nil {
				return err
			}
		}
		changes, size = append(changes, c), size+len(c.Key)+len(c.Value)
		return nil
	}
	for _, key := range keys {
		if err := add(change(key, s.shards[key], pack(byShard[key]))); err != nil {
			return err
		}
	}
	notes := slices.Sorted(maps.Keys(s.notes))
	slices.SortStableFunc(notes, func(a, b string) int { return cmp.Compare(s.removals(a), s.removals(b)) })
	for _, key := range notes {
		if err := add(state.Delete(state.Record{Key: key, Version: s.notice[key]})); err != nil {
			return err
		}
	}
	if err := flush(last, true); err != nil {
		return err
	}
	if !complete {
		s.Forget()
		return nil
	}
	s.known = true
	s.notes, s.notice, s.unsure = map[string][]Row{}, map[string]string{}, map[string]bool{}
	return nil
}

// removals counts the tasks of a note whose records were removed. Such notes go last: one that was written
// before them, by a clock that was ahead, must not outlast them.
func (s *Summary) removals(note string) (n int) {
	for _, row := range s.notes[note] {
		if row.Gone {
			n++
		}
	}
	return n
}

func change(key, version string, value []byte) state.Change {
	if version == "" {
		return state.Create(key, value)
	}
	return state.Replace(state.Record{Key: key, Version: version}, value)
}

func pack(rows []Row) []byte {
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Task, b.Task) })
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(state.Encode(shard{rows})) // into a buffer
	_ = zip.Close()
	return packed.Bytes()
}

func unpack(rec state.Record) ([]Row, error) {
	zip, err := gzip.NewReader(bytes.NewReader(rec.Value))
	if err == nil {
		rec.Value, err = io.ReadAll(zip)
	}
	if err != nil {
		return nil, &state.CorruptError{Record: rec, Err: err}
	}
	decoded, err := state.Decode[shard](rec)
	return decoded.Data.Rows, err
}
