package terraformcli

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/redact"
)

// output takes what one command prints.
type output struct {
	log   io.Writer
	scrub *redact.Scrubber
	seen  func(line string) // of standard output, without secrets; may be nil
	// decode returns what a line of standard output says, and whether that is an
	// error; nil if the lines are text.
	decode func(line string) (text string, failed bool)

	mu    sync.Mutex // terraform-exec reads both streams at once
	last  []string   // the errors: lines of standard error, or decoded
	size  int        // of last, in bytes
	shown bool       // last is in the log
	any   bool       // something was printed: the command was started

	printed []string // the lines of a state so far
	state   []byte   // that Terraform has printed, because it could not write it anywhere
}

// errorLimit is how many bytes of standard error are kept: a plan of thousands of
// resources may repeat one error thousands of times.
const errorLimit = 64 << 10

func (o *output) stdout() *lineWriter {
	return &lineWriter{line: func(line string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.any = true
		if o.decode != nil {
			text, failed := o.decode(line)
			switch {
			case failed:
				o.keep(text)
			case text != "":
				o.show(text)
			}
			return
		}
		if line = o.show(line); o.seen != nil {
			o.seen(line)
		}
	}}
}

// stderr takes Terraform's errors. Terraform wraps them, so a secret may span
// several lines: end writes them to the log together.
func (o *output) stderr() *lineWriter {
	return &lineWriter{line: func(line string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if line != "{" && len(o.printed) == 0 {
			o.keep(line)
			return
		}
		o.printed = append(o.printed, line)
		if line == "}" {
			o.endState()
		}
	}}
}

// endState takes what looks like a state. It holds secrets, so it is not in the log.
func (o *output) endState() {
	if raw := []byte(strings.Join(o.printed, "\n")); isState(raw) {
		o.state = raw
	} else {
		for _, line := range o.printed {
			o.keep(line)
		}
	}
	o.printed = nil
}

// keep takes lines of an error.
func (o *output) keep(lines string) {
	if o.size < errorLimit {
		o.last = append(o.last, lines)
		o.size += len(lines) + 1
		return
	}
	o.showErrors()
	o.show(lines)
}

// end writes to the log what is not in it yet.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endState()
	o.showErrors()
}

func (o *output) showErrors() {
	if !o.shown && len(o.last) > 0 {
		o.shown = true
		o.show(strings.Join(o.last, "\n"))
	}
}

// show writes whole lines to the log, without secrets, and returns them.
func (o *output) show(lines string) string {
	lines = o.scrub.Clean(lines)
	io.WriteString(o.log, lines+"\n") // a log that cannot be written stops no run
	return lines
}

// errors returns the errors with their secrets: redacting them first could
// remove words that causesOf needs.
func (o *output) errors() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.last, "\n")
}

// lineWriter calls a function with each whole line, without its end.
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
