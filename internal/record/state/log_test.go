package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestLogWriter_AReaderFindsTheBeginningOfTheWholeOutput(t *testing.T) {
	s := newStore(t)
	written := map[string]int{} // writes of each record
	s.Before = func(changes []state.Change) error {
		for _, c := range changes {
			written[c.Key]++
			if len(c.Value) > 256<<10 {
				t.Errorf("a record has %d bytes", len(c.Value))
			}
		}
		return nil
	}
	log := state.NewLogWriter(s, "web", "r1", time.Time{})
	var want bytes.Buffer
	for i := range 200 {
		line := fmt.Appendf(nil, "line %d %x\n", i, rand.Uint64())
		if i%50 == 49 {
			for range 12 << 10 / 8 { // does not compress: fills a record
				line = fmt.Appendf(line, "%x", rand.Uint64())
			}
		}
		want.Write(line)
		if err := log.Append(t.Context(), line); err != nil {
			t.Fatal(err)
		}
		got, err := state.LoadLog(t.Context(), s, "web", "r1")
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("after %d lines %d of %d bytes are read (%v)", i+1, len(got), want.Len(), err)
		}
	}
	if len(written) < 2 {
		t.Errorf("the log has %d records, so that each write was of the whole", len(written))
	}
	before := len(written)
	if err := log.Append(t.Context(), nil); err != nil || len(written) != before {
		t.Errorf("nothing new was written (%v)", err)
	}
	want.WriteString("Apply complete!\n")
	if err := log.Close(t.Context(), []byte("Apply complete!\n")); err != nil || log.Len() != want.Len() {
		t.Errorf("closed after %d bytes of %d: %v", log.Len(), want.Len(), err)
	}
	if got, err := state.LoadLog(t.Context(), s, "web", "r1"); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d of %d bytes are kept (%v)", len(got), want.Len(), err)
	}
}

func TestLogWriter_WhatCouldNotBeWrittenFollows(t *testing.T) {
	s := newStore(t)
	fault := errors.New("disk full")
	fail := func([]state.Change) error { return fault }
	log := state.NewLogWriter(s, "web", "r1", time.Time{})
	for i, store := range []struct{ before, after func([]state.Change) error }{{nil, fail}, {fail, nil}, {nil, nil}, {nil, fail}} {
		s.Before, s.After = store.before, store.after
		err := log.Append(t.Context(), fmt.Appendf(nil, "line %d\n", i))
		if faulty := store.before != nil || store.after != nil; faulty != errors.Is(err, fault) {
			t.Errorf("line %d: %v", i, err)
		}
	}
	s.Before, s.After = nil, nil
	if err := log.Close(t.Context(), []byte("the end\n")); err != nil {
		t.Fatal(err)
	}
	const want = "line 0\nline 1\nline 2\nline 3\nthe end\n"
	if got, err := state.LoadLog(t.Context(), s, "web", "r1"); err != nil || string(got) != want {
		t.Errorf("%q is kept (%v)", got, err)
	}
}

func TestOutput_HeadIsWholeLinesThatTheOutputBeginsWith(t *testing.T) {
	var out state.Output
	fmt.Fprint(&out, "one\ntwo\nthr")
	if got := out.Head(4); string(got) != "two\n" {
		t.Errorf("the head is %q", got)
	}
	if got := out.Head(8); len(got) != 0 {
		t.Errorf("there is more: %q", got)
	}
	for range state.MaxLog {
		fmt.Fprint(&out, "é\n")
	}
	head := out.Head(0)
	if len(head) > state.MaxLog/2 || head[len(head)-1] != '\n' || !bytes.HasPrefix(out.Bytes(), head) {
		t.Errorf("the head of %d bytes ends with %q", len(head), head[len(head)-5:])
	}
}
