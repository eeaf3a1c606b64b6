package terraform

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
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
}

// errorLimit bounds what is kept of standard error, in bytes: the errors of a
// plan of thousands of resources may say the same thing thousands of times.
const errorLimit = 64 << 10

func (o *output) stdout() *lineWriter {
	return &lineWriter{line: func(line string) {
		o.mu.Lock()
		defer o.mu.Unlock()
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

// redacted stands where a secret was.
const redacted = "(redacted)"

// shortestSecret is the length, in bytes, from which on a value is made
// unreadable: shorter ones are words like "tcp" and would garble the text.
const shortestSecret = 4

// scrubber makes secrets unreadable in what Terraform prints.
type scrubber struct {
	replace *strings.Replacer
	broken  *regexp.Regexp // secrets with spaces, also if a line ends there; nil for none
}

func newScrubber(o Options) *scrubber {
	var secrets []string
	add := func(s string) {
		for _, line := range strings.Split(s, "\n") { // output is seen line by line
			line = strings.TrimSpace(line)
			if len(line) < shortestSecret {
				continue
			}
			secrets = append(secrets, line)
			if quoted := strconv.Quote(line); quoted != `"`+line+`"` {
				secrets = append(secrets, quoted[1:len(quoted)-1])
			}
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	var values any
	if json.Unmarshal(o.VarJSON, &values) == nil {
		walk(values)
	}
	for _, value := range o.Env {
		add(value)
	}
	for _, value := range slices.Concat(o.Secrets, credentials(o.Backend.Body)) {
		add(value)
	}
	add(o.Consul.Token)
	if o.Consul.Auth.Enabled {
		add(o.Consul.Auth.Password)
	}
	// The longest first: one secret may begin with another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(secrets))
	var broken []string
	for _, s := range secrets {
		pairs = append(pairs, s, redacted)
		if words := strings.Fields(s); len(words) > 1 && utf8.ValidString(s) {
			for i, w := range words {
				words[i] = regexp.QuoteMeta(w)
			}
			broken = append(broken, strings.Join(words, `[\s│]+`)) // with the frame that Terraform draws
		}
	}
	scrub := &scrubber{replace: strings.NewReplacer(pairs...)}
	if len(broken) > 0 {
		scrub.broken = regexp.MustCompile(strings.Join(broken, "|"))
	}
	return scrub
}

// Redact makes secrets unreadable in a text of somebody else's, as they are in
// what Terraform prints.
func Redact(text string, secrets []string) string {
	return newScrubber(Options{Secrets: secrets}).clean(text)
}

func (s *scrubber) clean(text string) string {
	if s.broken != nil {
		text = s.broken.ReplaceAllString(text, redacted)
	}
	return s.replace.Replace(text)
}
