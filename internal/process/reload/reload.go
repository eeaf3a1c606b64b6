// Package reload reports when the configuration must be read again: on SIGHUP, and when the content
// of one of its files has changed. File system events only trigger a comparison of contents: a file
// that is written again with the same text is not a change.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Intervals of a Watcher.
const (
	quietFor  = 500 * time.Millisecond // an editor or a copy has finished when nothing has changed for this long
	atMost    = 5 * time.Second        // files that change all the time are compared at the latest after this time
	pollEvery = 30 * time.Second       // for changes without events: network drives, links in parent folders
)

// coarse is the resolution of file times in Linux, rounded up.
const coarse = 20 * time.Millisecond

// maxRead is how much of a file is compared, in bytes; the configuration reads no more of a file.
const maxRead = 10 << 20

// Change says why the configuration must be read again. An empty Change repeats an earlier one, see
// Follow.
type Change struct {
	Asked bool     // by SIGHUP
	Files []string // absolute, sorted: changed, new and missing files
}

// Watcher watches the files of a configuration.
type Watcher struct {
	log    *slog.Logger
	pace   pace
	c      chan Change
	follow chan follow
	done   chan struct{}

	events *fsnotify.Watcher // nil if the system has no events

	paths    []string          // absolute: files or folders
	more     []string          // see Follow
	contents map[string]string // of paths and more, by file

	names, folders map[string]bool // whose events matter
}

// pace is shortened by tests.
type pace struct{ quiet, atMost, poll time.Duration }

type follow struct {
	read  time.Time
	files []string
}

// Watch watches files, the task files of folders, and SIGHUP, until ctx ends. Call it before the
// configuration is read for the first time, so that no change is missed.
func Watch(ctx context.Context, log *slog.Logger, paths ...string) *Watcher {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("cannot watch the task files for changes: polling them instead",
			"every", pollEvery, "error", err)
	}
	return watch(ctx, log, pace{quietFor, atMost, pollEvery}, events, paths)
}

func watch(ctx context.Context, log *slog.Logger, p pace, events *fsnotify.Watcher, paths []string) *Watcher {
	w := &Watcher{
		log: log, pace: p, events: events, paths: absolute(paths),
		c: make(chan Change), follow: make(chan follow), done: make(chan struct{}),
	}
	w.listen()
	w.contents = contents(w.paths)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP) // never arrives on Windows
	go func() {
		defer close(w.c)
		defer close(w.done)
		defer signal.Stop(asked)
		if events != nil {
			defer events.Close()
		}
		w.run(ctx, asked)
	}()
	return w
}

// C receives changes; unread changes are merged. It is closed when the context has ended.
func (w *Watcher) C() <-chan Change { return w.c }

// Follow names further files of the configuration, such as variable files,
// and replaces the list of an earlier call. A new file has changed if it was
// written after the given time, at which the configuration began to be read.
//
// A Change without a following call of Follow is repeated every 30 seconds: the
// error in the configuration may be corrected in a file that is not watched,
// such as a missing variable file.
func (w *Watcher) Follow(read time.Time, files ...string) {
	select {
	case w.follow <- follow{read, absolute(files)}:
	case <-w.done:
	}
}

func (w *Watcher) run(ctx context.Context, asked <-chan os.Signal) {
	var events <-chan fsnotify.Event
	var overflows <-chan error
	if w.events != nil {
		events, overflows = w.events.Events, w.events.Errors
	}
	poll := time.NewTicker(w.pace.poll)
	defer poll.Stop()
	settled := time.NewTimer(time.Hour)
	defer settled.Stop()
	settled.Stop()
	var since time.Time // of the first event since the last comparison; zero without one

	var news Change
	answered, again := true, false
	check := func() {
		settled.Stop()
		since = time.Time{}
		w.listen() // a folder may have been replaced, or a link changed
		news.Files = slices.Compact(slices.Sorted(slices.Values(append(news.Files, w.changed()...))))
	}
	stir := func() {
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		settled.Reset(min(w.pace.quiet, since.Add(w.pace.atMost).Sub(now)))
	}
	for {
		var out chan<- Change
		if news.Asked || len(news.Files) > 0 || again {
			out = w.c
		}
		select {
		case <-ctx.Done():
			return
		case out <- news:
			news, answered, again = Change{}, false, false
		case <-asked:
			check() // what is read now is not a change later
			news.Asked = true
		case f := <-w.follow:
			answered, again = true, false
			w.replace(f)
			stir()
		case e := <-events:
			if w.concerns(e.Name) {
				stir()
			}
		case err := <-overflows:
			w.log.Debug("events of the file system were lost", "error", err)
			stir()
		case <-settled.C:
			check()
		case <-poll.C:
			check()
			again = !answered
		}
	}
}

// replace replaces the followed files.
func (w *Watcher) replace(f follow) {
	followed := make(map[string]bool, len(f.files))
	for _, name := range f.files {
		followed[name] = true
	}
	for _, name := range w.more {
		if !followed[name] {
			delete(w.contents, name)
		}
	}
	for name, content := range contents(f.files) {
		if _, known := w.contents[name]; known {
			continue
		}
		if info, err := os.Stat(name); err != nil || !info.ModTime().After(f.read.Add(-coarse)) {
			w.contents[name] = content
		}
	}
	w.more = f.files
	w.listen()
}

// changed compares all files and returns those that have changed.
func (w *Watcher) changed() []string {
	before := w.contents
	w.contents = contents(slices.Concat(w.paths, w.more))
	var names []string
	for name, content := range w.contents {
		if was, known := before[name]; !known || was != content {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, still := w.contents[name]; !still {
			names = append(names, name)
		}
	}
	return names
}

// contents returns a digest of the content of every file.
func contents(paths []string) map[string]string {
	contents := map[string]string{}
	for _, path := range paths {
		entries, err := os.ReadDir(path)
		if err != nil { // a file, or missing
			contents[path] = content(path)
			continue
		}
		for _, e := range entries {
			if name := filepath.Join(path, e.Name()); config.IsTaskFile(name) {
				contents[name] = content(name)
			}
		}
	}
	return contents
}

// content returns a digest of a file's content, or why it cannot be read.
func content(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return info.Mode().String() // reading a pipe would empty it, or block
	}
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxRead)); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d bytes %x", info.Size(), sum.Sum(nil))
}

// listen subscribes to the events of every folder that contains a file: programs replace files
// rather than write them.
func (w *Watcher) listen() {
	w.names, w.folders = map[string]bool{}, map[string]bool{}
	parents := map[string]bool{}
	name := func(path string) {
		w.names[path] = true
		parents[filepath.Dir(path)] = true
	}
	for _, path := range slices.Concat(w.paths, w.more) {
		name(path)
		if target, err := filepath.EvalSymlinks(path); err == nil {
			name(target)
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			w.folders[path] = true
		}
	}
	if w.events == nil {
		return
	}
	for _, folder := range w.events.WatchList() {
		if !parents[folder] && !w.folders[folder] {
			_ = w.events.Remove(folder) // the folder may be gone
		}
	}
	for _, set := range []map[string]bool{parents, w.folders} {
		for folder := range set {
			if err := w.events.Add(folder); err != nil {
				w.log.Debug("cannot watch a folder: polling it instead", "folder", folder, "every", w.pace.poll, "error", err)
			}
		}
	}
}

// concerns reports whether an event may be about one of the files. The folder may contain other
// files that change all the time, such as a store.
func (w *Watcher) concerns(name string) bool {
	return w.names[name] || w.folders[name] || w.folders[filepath.Dir(name)] && config.IsTaskFile(name) ||
		filepath.Base(name) == "..data" // so Kubernetes replaces all files of a volume at once
}

// absolute makes paths absolute. If the working directory is unknown, they stay unchanged.
func absolute(paths []string) []string {
	abs := make([]string, 0, len(paths))
	for _, p := range paths {
		if a, err := filepath.Abs(p); err == nil {
			p = a
		}
		abs = append(abs, p)
	}
	return abs
}
