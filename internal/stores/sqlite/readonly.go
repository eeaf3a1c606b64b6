package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// copyTries limits the attempts to copy the files of a store that changes meanwhile.
const copyTries = 20

// ReadOnly opens the store in the file at path for reading, also while other
// processes write to it. If the file does not exist, it returns fs.ErrNotExist.
//
// SQLite needs to write to the folder even to read. If this process may not write
// there, it reads a copy, and copies again whenever the store has changed.
func ReadOnly(ctx context.Context, path string) (state.Store, error) {
	s, err := readOnly(ctx, path)
	switch code(err) {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		c := &copied{source: path}
		if cerr := c.refresh(ctx); cerr != nil {
			return nil, errors.Join(err, c.Close()) // a copy would fail in the same way
		}
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// copied is a store that reads a copy.
type copied struct {
	source string

	mu    sync.Mutex
	store *Store // the latest copy; nil before the first
	dir   string // folder of that copy
	seen  [2]version
}

var _ state.Store = (*copied)(nil)

// version shows whether a file has changed.
type version struct {
	size  int64
	mtime time.Time
}

// versions returns the versions of the store's file and of its write-ahead log.
func (c *copied) versions() (v [2]version, err error) {
	for i, name := range []string{c.source, c.source + "-wal"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			continue
		}
		if err != nil {
			return v, err
		}
		v[i] = version{info.Size(), info.ModTime()}
	}
	return v, nil
}

// refresh copies the store again if it has changed. The caller holds mu or is alone.
func (c *copied) refresh(ctx context.Context) error {
	for try := 1; ; try++ {
		now, err := c.versions()
		if err != nil {
			return fmt.Errorf("copy store %s to read it: %w", c.source, err)
		}
		if c.store != nil && now == c.seen {
			return nil
		}
		dir, err := os.MkdirTemp("", "terrapulse-store-")
		if err != nil {
			return fmt.Errorf("copy store %s to read it: %w", c.source, err)
		}
		path := filepath.Join(dir, filepath.Base(c.source))
		err = copyFile(path, c.source)
		if err == nil && now[1] != (version{}) {
			err = copyFile(path+"-wal", c.source+"-wal")
		}
		after, serr := c.versions()
		if err = errors.Join(err, serr); err == nil && after == now {
			store, err := readOnly(ctx, path)
			if err != nil {
				os.RemoveAll(dir)
				return fmt.Errorf("read a copy of store %s: %w", c.source, err)
			}
			old, oldDir := c.store, c.dir
			c.store, c.dir, c.seen = store, dir, now
			if old != nil {
				old.Close()
				os.RemoveAll(oldDir)
			}
			return nil
		}
		os.RemoveAll(dir)
		if try == copyTries {
			return errors.Join(err, fmt.Errorf("copy store %s to read it: it changes all the time; try again", c.source))
		}
		if !delay.For(ctx, time.Duration(try)*5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// Get implements state.Store.
func (c *copied) Get(ctx context.Context, key string) (state.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return state.Record{}, err
	}
	return c.store.Get(ctx, key)
}

// List implements state.Store.
func (c *copied) List(ctx context.Context, prefix string) ([]state.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	return c.store.List(ctx, prefix)
}

// Apply implements state.Store.
func (c *copied) Apply(context.Context, ...state.Change) ([]state.Record, error) {
	return nil, fmt.Errorf("write to store %s: %w", c.source, errReadOnly)
}

// Close implements state.Store.
func (c *copied) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return nil
	}
	return errors.Join(c.store.Close(), os.RemoveAll(c.dir))
}
