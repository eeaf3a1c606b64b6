package terraform

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// output takes what one command prints.
type output struct {
	log   io.Writer
	scrub *scrubber
	seen  func(line string) // of standard output, without secrets; may be nil

	mu    sync.Mutex // terraform-exec reads both streams at once
	last  []string   // lines of standard error
	size  int        // of last, in bytes
	shown bool       // last is in the log
	any   bool       // something was printed: the command was started
}

// errorLimit bounds what is kept of standard error, in bytes: the errors of a
// plan of thousands of resources may say the same thing thousands of times.
const errorLimit = 64 << 10

func (o *output) stdout() *lineWriter {
	return &lineWriter{line: func(line string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.any = true
		if line = o.show(line); o.seen != nil {
			o.seen(line)
		}
	}}
}

// stderr is for Terraform's errors, which it breaks into lines: as a secret may
// go over several of them, they are written to the log together, by end.
func (o *output) stderr() *lineWriter {
	return &lineWriter{line: func(line string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.size < errorLimit {
			o.last = append(o.last, line)
			o.size += len(line) + 1
			return
		}
		o.showErrors()
		o.show(line)
	}}
}

// end writes to the log what is not there yet.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.showErrors()
}

func (o *output) showErrors() {
	if !o.shown && len(o.last) > 0 {
		o.shown = true
		o.show(strings.Join(o.last, "\n"))
	}
}

// show writes whole lines to the log and returns them as they stand there.
func (o *output) show(lines string) string {
	lines = o.scrub.clean(lines)
	io.WriteString(o.log, lines+"\n") // a log that cannot be written stops no run
	return lines
}

// errors is standard error as a text, with its secrets: what it means is told
// by its words, and a value may be one of them.
func (o *output) errors() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}

// lineWriter hands over whole lines without their ends.
type lineWriter struct {
	line    func(string)
	partial []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.partial = append(w.partial, p...)
			return n, nil
		}
		w.line(strings.TrimSuffix(string(append(w.partial, p[:i]...)), "\r"))
		w.partial, p = w.partial[:0], p[i+1:]
	}
}

func (w *lineWriter) flush() {
	if len(w.partial) > 0 {
		w.line(string(w.partial))
		w.partial = nil
	}
}
