package terraformcli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

// liveLog is the output of a run, as it is stored while the run goes on.
type liveLog struct {
	t     *testing.T
	store state.Store
	run   string
	state.Output
	writer *state.LogWriter
}

func newLiveLog(t *testing.T, store state.Store, run string) *liveLog {
	return &liveLog{t: t, store: store, run: run, writer: state.NewLogWriter(store, "web", run, time.Time{})}
}

// stored writes to the store what is new, and returns all that the store holds.
func (l *liveLog) stored() string {
	l.t.Helper()
	if err := l.writer.Append(l.t.Context(), l.Head(l.writer.Len())); err != nil {
		l.t.Fatal(err)
	}
	return l.read()
}

// closed ends the log, and returns all that the store holds.
func (l *liveLog) closed() string {
	l.t.Helper()
	if err := l.writer.Close(l.t.Context(), l.Bytes()[l.writer.Len():]); err != nil {
		l.t.Fatal(err)
	}
	return l.read()
}

func (l *liveLog) read() string {
	l.t.Helper()
	text, err := state.LoadLog(l.t.Context(), l.store, "web", l.run)
	if err != nil && !errors.Is(err, state.ErrNotFound) { // nothing was written yet
		l.t.Fatal(err)
	}
	return string(text)
}

func newOutputStore(t *testing.T) state.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestOutput_SecretSplitByWritesIsNeverStored(t *testing.T) {
	store := newOutputStore(t)
	scrub := newScrubber(Options{Secrets: []string{"abcdefgh-hidden"}})
	const text = "one\npassword = abcdefgh-hidden\nend\n"
	const want = "one\npassword = (redacted)\nend\n"
	for border := range len(text) + 1 {
		log := newLiveLog(t, store, fmt.Sprint("r", border))
		o := output{log: log, scrub: scrub}
		w := o.stdout()
		for _, part := range []string{text[:border], text[border:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
			if got := log.stored(); !strings.HasPrefix(want, got) {
				t.Errorf("with a border at %d, the store holds %q", border, got)
			}
		}
		w.flush()
		if got := log.closed(); got != want {
			t.Errorf("with a border at %d, the store holds %q in the end", border, got)
		}
	}
}

const severalLines = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIHidden1Aqk2PHqzv0x2DkWXwqp3tQ8VYbnTfwhidden
HiddenLine2xYzABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx
Hidden3==
-----END PRIVATE KEY-----
`

func TestOutput_SecretOfSeveralLinesIsNeverStored(t *testing.T) {
	vars, err := json.Marshal(map[string]any{"provider": map[string]any{"key": severalLines}})
	if err != nil {
		t.Fatal(err)
	}
	quoted := strings.Trim(string(vars[strings.Index(string(vars), `"-----`):len(vars)-2]), `"`)
	lines := strings.Split(strings.TrimSpace(severalLines), "\n")
	indented := "    " + strings.Join(lines, "\n    ")
	framed := "│ Error: bad key\n│ " + strings.Join(lines, "\n│ ")
	all := func(before string) string {
		return before + strings.Join([]string{redact.Redacted, redact.Redacted, redact.Redacted, redact.Redacted, redact.Redacted}, "\n"+before)
	}
	store := newOutputStore(t)
	for _, c := range []struct {
		name, text string
		stderr     bool
		want       string
	}{
		{"on lines of its own", "key = <<EOT\n" + indented + "\nEOT\n", false, "key = <<EOT\n" + all("    ") + "\nEOT\n"},
		{"between quotes", `key = "` + quoted + "\"\n", false, `key = "` + strings.Repeat(redact.Redacted+`\n`, 5) + "\"\n"},
		{"in base64", "data = " + base64.StdEncoding.EncodeToString([]byte(severalLines)) + "\n", false, "data = " + redact.Redacted + "\n"},
		{"in an error", framed + "\n", true, "│ Error: bad key\n" + all("│ ") + "\n"},
	} {
		for _, size := range []int{1, 7, 64, len(c.text)} { // of a write
			log := newLiveLog(t, store, fmt.Sprint(c.name, size))
			o := output{log: log, scrub: newScrubber(Options{VarJSON: vars})}
			w := o.stdout()
			if c.stderr {
				w = o.stderr()
			}
			for rest := c.text; rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := w.Write([]byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatal(err)
				}
				if len(rest)%32 == 0 { // somewhere in the midst
					if got := log.stored(); !strings.HasPrefix(c.want, got) {
						t.Fatalf("%s, with writes of %d bytes: the store holds %q", c.name, size, got)
					}
				}
			}
			w.flush()
			o.end()
			if diff := cmp.Diff(c.want, log.closed()); diff != "" {
				t.Errorf("%s, with writes of %d bytes:\n%s", c.name, size, diff)
			}
		}
	}
}
