package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

const (
	// redrawEvery is how often the line on a terminal is drawn.
	redrawEvery = time.Second
	// remindEvery is how often runs under way are logged without a terminal.
	remindEvery = 30 * time.Second
)

// progress shows on standard error how far the runs of one command are: on a
// terminal in its last line, which is redrawn, and elsewhere in log lines.
type progress struct {
	out   io.Writer
	width int // of the terminal; 0 if there is none
	now   func() time.Time
	log   *slog.Logger
	verb  string // what happens to the tasks, such as "running"
	total int    // tasks

	mu      sync.Mutex
	done    int
	running map[string]*progressOf
	drawn   bool // the line is on the screen
}

// progressOf is how far the run of one task is. Terraform's output is written to
// it.
type progressOf struct {
	p         *progress
	task      string
	began     time.Time
	planned   int // resources to change; 0 if not known yet
	completed int
}

// showProgress starts a progress, and on a terminal prints standard error through
// it. The returned function ends it.
func (a *app) showProgress() (p *progress, end func()) {
	stderr := a.stderr
	p = &progress{out: plainly(stderr), now: time.Now, log: slog.Default(), running: map[string]*progressOf{}}
	if f, ok := p.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.width = columns
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			p.width = width
		}
		a.stderr = placed{p, a} // which erases the line before other output
	}
	every := remindEvery
	if p.width > 0 {
		every = redrawEvery
	}
	ctx, stop := context.WithCancel(context.Background())
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for delay.For(ctx, every) {
			p.show()
		}
	})
	return p, sync.OnceFunc(func() {
		stop()
		drawing.Wait()
		p.clear()
		a.stderr = stderr
	})
}

// Unwrap returns the terminal.
func (p *progress) Unwrap() io.Writer { return p.out }

// Write prints other output above the line.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	n, err := p.out.Write(text)
	if strings.HasSuffix(string(text), "\n") {
		p.draw()
	}
	return n, err
}

// begin adds a task to the line. Terraform's output goes to the returned writer.
func (p *progress) begin(task string) io.Writer {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := &progressOf{p: p, task: task, began: p.now()}
	p.running[task] = run
	p.draw()
	return run
}

// end removes a task from the line.
func (p *progress) end(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, task)
	p.done++
	p.draw()
}

var (
	completion = regexp.MustCompile(`: (?:Creation|Modifications|Destruction) complete after `)
	planLine   = regexp.MustCompile(`^Plan: (?:\d+ to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy`)
)

func (run *progressOf) Write(lines []byte) (int, error) {
	run.p.mu.Lock()
	defer run.p.mu.Unlock()
	for line := range strings.Lines(string(lines)) {
		if completion.MatchString(line) {
			run.completed++
		} else if m := planLine.FindStringSubmatch(line); m != nil {
			run.planned = 0
			for _, n := range m[1:] {
				count, _ := strconv.Atoi(n)
				run.planned += count
			}
		}
	}
	return len(lines), nil
}

// show redraws the line, or logs the runs under way.
func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		p.draw()
		return
	}
	for _, run := range p.ordered() {
		attrs := []any{"task", run.task, "for", p.now().Sub(run.began).Round(time.Second), "resources_done", run.completed}
		if run.planned > 0 {
			attrs = append(attrs, "resources", run.planned)
		}
		p.log.Info("the task is still "+p.verb, attrs...)
	}
}

// ordered returns the runs under way, the longest first.
func (p *progress) ordered() []*progressOf {
	return slices.SortedFunc(maps.Values(p.running), func(a, b *progressOf) int {
		return cmp.Or(a.began.Compare(b.began), strings.Compare(a.task, b.task))
	})
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) draw() {
	p.erase()
	if p.width == 0 || len(p.running) == 0 {
		return
	}
	fmt.Fprint(p.out, shorten(p.line(), p.width-1)) // the last column would start a new line
	p.drawn = true
}

// line returns the line for a terminal.
func (p *progress) line() string {
	var runs []string
	for _, run := range p.ordered() {
		text := run.task + " " + ago(p.now().Sub(run.began))
		switch {
		case run.planned > 0:
			text += fmt.Sprintf(" (%d of %d resources)", run.completed, run.planned)
		case run.completed > 0:
			text += fmt.Sprintf(" (%d resources)", run.completed)
		}
		runs = append(runs, text)
	}
	return fmt.Sprintf("%d of %d done, %s: %s", p.done, p.total, p.verb, strings.Join(runs, ", "))
}

// set sets what happens to how many tasks, and the log.
func (p *progress) set(log *slog.Logger, verb string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.verb, p.total = log, verb, total
}

// clear erases the line when all runs have ended.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.running = map[string]*progressOf{}
}
