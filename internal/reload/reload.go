// Package reload tells when the configuration is to be read again: on SIGHUP,
// and when one of the files that it is read from has another content. Events of
// the file system only say when to look; what counts are the contents, so that
// a file that is touched or written anew with the same text is no news.
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

	"github.com/terrapulse/terrapulse/internal/config"
)

// How a Watcher paces itself.
const (
	quietFor  = 500 * time.Millisecond // an editor or a copy is done when nothing has moved for so long
	atMost    = 5 * time.Second        // but files that never rest are looked at all the same
	pollEvery = 30 * time.Second       // where no events come: network drives, links far up in a path
)

// coarse is the step in which Linux counts the time of a file, and some more.
const coarse = 20 * time.Millisecond

// maxRead is how much of a file is looked at, in bytes; the configuration reads
// no more of one.
const maxRead = 10 << 20

// Change says why the configuration is to be read again. One that says nothing
// repeats an earlier one, see Follow.
type Change struct {
	Asked bool     // by SIGHUP
	Files []string // absolute, sorted: those with another content, new ones and missing ones
}

// Watcher watches the files of a configuration.
type Watcher struct {
	log    *slog.Logger
	pace   pace
	c      chan Change
	follow chan follow
	done   chan struct{}

	events *fsnotify.Watcher // nil where the system has none

	paths    []string          // absolute: files or folders
	contents map[string]string // of paths, by file
	more     []string          // see Follow
	followed map[string]string // of more, by file

	names, folders map[string]bool // whose events concern us
}

// pace is what tests make faster.
type pace struct{ quiet, atMost, poll time.Duration }

type follow struct {
	read  time.Time
	files []string
}

// Watch watches files and folders, and SIGHUP where there is one, until ctx ends.
// Of a folder, its task files count. Start it before the configuration is read
// for the first time, so that no change falls in between.
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
	w.contents = look(w.paths)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP) // Windows has none: nothing comes
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

// C receives changes; those that are not received become one. It is closed
// when the context has ended.
func (w *Watcher) C() <-chan Change { return w.c }

// Follow names the files that the configuration is read from beside the paths
// of Watch, such as variable files, in place of those that were named before. A
// new one that was written since the given time, when the configuration began
// to be read, has changed.
//
// A change that is not answered by Follow is repeated every 30 seconds: what was
// wrong with the configuration may be put right in a file that is not watched, a
// missing variable file for one.
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
	var since time.Time // of the first event that was not looked at; zero without one

	var news Change
	answered, again := true, false
	look := func() {
		settled.Stop()
		since = time.Time{}
		w.listen() // a folder may have been replaced, a link may lead elsewhere
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
			look() // what is read now is no news later
			news.Asked = true
		case f := <-w.follow:
			answered, again = true, false
			news.Files = append(news.Files, w.replace(f)...)
		case e := <-events:
			if w.concerns(e.Name) {
				stir()
			}
		case err := <-overflows:
			w.log.Debug("events of the file system were lost", "error", err)
			stir()
		case <-settled.C:
			look()
		case <-poll.C:
			look()
			again = !answered
		}
	}
}

// replace takes over what is followed and returns what has changed of it.
func (w *Watcher) replace(f follow) []string {
	w.more = f.files
	w.listen()
	before, now := w.followed, look(f.files)
	w.followed = now
	var changed []string
	for name, content := range now {
		was, known := before[name]
		if !known {
			info, err := os.Stat(name)
			known, was = err != nil || !info.ModTime().After(f.read.Add(-coarse)), content
		}
		if !known || was != content {
			changed = append(changed, name)
		}
	}
	return changed
}

// changed looks and returns what is not as it was.
func (w *Watcher) changed() []string {
	var names []string
	compare := func(before, now map[string]string) map[string]string {
		for name, content := range now {
			if was, known := before[name]; !known || was != content {
				names = append(names, name)
			}
		}
		for name := range before {
			if _, still := now[name]; !still {
				names = append(names, name)
			}
		}
		return now
	}
	w.contents = compare(w.contents, look(w.paths))
	w.followed = compare(w.followed, look(w.more))
	return names
}

// look returns what can be told of the content of every file.
func look(paths []string) map[string]string {
	contents := map[string]string{}
	for _, path := range paths {
		entries, err := os.ReadDir(path)
		if err != nil { // a file, or nothing
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

// content is a digest of a file's content, or why there is none.
func content(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return info.Mode().String() // to read a pipe would empty it, or wait
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

// listen asks for the events of every folder that a file is in: files
// themselves are replaced rather than written.
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
			_ = w.events.Remove(folder) // it may be gone
		}
	}
	for _, set := range []map[string]bool{parents, w.folders} {
		for folder := range set {
			if err := w.events.Add(folder); err != nil {
				w.log.Debug("no events of a folder: it is looked at now and then", "folder", folder, "every", w.pace.poll, "error", err)
			}
		}
	}
}

// concerns reports whether an event may be about one of the files. Beside them
// a folder may hold what is written all the time, such as a store.
func (w *Watcher) concerns(name string) bool {
	return w.names[name] || w.folders[name] || w.folders[filepath.Dir(name)] && config.IsTaskFile(name) ||
		filepath.Base(name) == "..data" // so Kubernetes replaces all files of a volume at once
}

// absolute makes paths absolute. Without a working directory they stay what
// they are.
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
