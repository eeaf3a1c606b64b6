// Package sqlite keeps the state of Terrapulse in an SQLite file, which several
// processes of one machine may share. It is the default store on one machine.
//
// # Durability
//
// Every confirmed Apply was flushed to the disk (synchronous=FULL). In WAL mode
// the cheaper NORMAL would survive a crash of the process, but could lose the last
// writes in a power failure. Nobody repeats some of them: a task that a person has
// disabled, a requested run, a fencing token that is already recorded elsewhere.
// There are few writes (a handful per run, none on an idle tick), so the flushes
// cost nothing that anybody notices.
//
// # Size
//
// SQLite reuses the pages of removed records, moves the write-ahead log into the
// file after about every quarter of a mebibyte, and each write removes a few
// expired records: under constant load the file keeps its size.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	applicationID = 0x54504c53 // "TPLS", in the header of every store file
	schemaVersion = 1          // raised with every change of the schema

	// busyTimeout is how long a write waits for another process's write. Writes take milliseconds;
	// a lock that lasts longer is a transaction that somebody left open.
	busyTimeout = 30 * time.Second

	// purgePortion limits how many expired records one write removes, so that no write pays for all
	// of them.
	purgePortion = 32
)

// A version is unique in the whole store: it comes from a counter that every Apply increments, so
// that it does not repeat if a record is created again.
const schema = `
CREATE TABLE records (
	key     TEXT NOT NULL UNIQUE,
	value   BLOB NOT NULL,
	version TEXT NOT NULL,
	expires INTEGER -- milliseconds since 1970
);
CREATE INDEX records_expires ON records (expires) WHERE expires IS NOT NULL;
CREATE TABLE counter (version INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
`

// Store is a state.Store in an SQLite file.
type Store struct {
	path   string
	file   os.FileInfo // of the file that was opened
	writer *sql.DB     // one connection: writes queue here, not at the file's lock; nil if read-only
	reader *sql.DB
	now    func() time.Time
}

var (
	_ state.Store    = (*Store)(nil)
	_ state.Backward = (*Store)(nil)
	_ state.Several  = (*Store)(nil)
)

// errReadOnly is the error of Apply on a store that ReadOnly opened.
var errReadOnly = errors.New("the store was opened for reading only")

// creating serializes the creation of a file with everything else that this process opens: when a
// process closes a file, the system releases all its locks on that file, including SQLite's.
var creating sync.Mutex

// Open opens the store in the file at path, and creates it if it does not exist;
// its folder must exist. Only its owner can read the file.
//
// Open refuses, and does not change, a file that is something else, that is
// damaged, that a newer version has written, or that cannot be written.
func Open(ctx context.Context, path string) (*Store, error) {
	s, err := newStore(path)
	if err != nil {
		return nil, err
	}
	if err := s.createFile(); err != nil {
		return nil, err
	}
	s.writer, err = s.connect("")
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	s.writer.SetMaxOpenConns(1)
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, s.explain("open", err)
	}
	return s.ready()
}

// readOnly is ReadOnly for a writable folder.
func readOnly(ctx context.Context, path string) (*Store, error) {
	s, err := newStore(path)
	if err != nil {
		return nil, err
	}
	there, err := s.exists()
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, noState{s.path}
	}
	if s, err = s.ready(); err != nil {
		return nil, err
	}
	conn, err := s.reader.Conn(ctx)
	if err == nil {
		var made bool
		made, err = identify(ctx, conn)
		conn.Close()
		if err == nil && !made {
			err = noState{s.path}
		}
	}
	if err != nil {
		s.Close()
		return nil, s.explain("open", err)
	}
	return s, nil
}

// noState is the error of ReadOnly if nothing was ever stored.
type noState struct{ path string }

func (e noState) Error() string {
	return fmt.Sprintf("no state yet: there is no store at %s; the first start creates it. If the instance has task files with another "+
		"working_dir, name them with -config-file or -config-dir; if it has another store, name it with -store; -http-addr (or CTS_ADDRESS) names the HTTP API of an instance", e.path)
}

func (e noState) Is(target error) bool { return target == fs.ErrNotExist }

func newStore(path string) (*Store, error) {
	// Connections are opened later, perhaps in another working directory.
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{path: abs, now: time.Now}, nil
}

// exists reports whether the file exists, even if it is empty.
func (s *Store) exists() (bool, error) {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open store: %w", err)
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("open store: %s is not a file; choose another place with -store", s.path)
	}
	return true, nil
}

// createFile creates an empty file if there is none; SQLite itself would make it readable by
// everyone.
func (s *Store) createFile() error {
	creating.Lock()
	defer creating.Unlock()
	if there, err := s.exists(); there || err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		if _, serr := os.Stat(filepath.Dir(s.path)); errors.Is(serr, fs.ErrNotExist) {
			return fmt.Errorf("open store %s: there is no folder %s; create it or choose another place with -store",
				s.path, filepath.Dir(s.path))
		}
		return fmt.Errorf("create store: %w; choose another place with -store or allow writing there", err)
	}
	return f.Close()
}

// connect returns a pool of connections to the file, which must exist.
func (s *Store) connect(parameters string) (*sql.DB, error) {
	path := filepath.ToSlash(s.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/...
	}
	dsn := (&url.URL{Scheme: "file", Path: path}).String() + "?mode=rw" +
		"&_busy_timeout=" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) +
		"&_pragma=synchronous(FULL)" +
		"&_pragma=fullfsync(1)" + // macOS: a plain flush stops at the drive's cache
		"&_pragma=cell_size_check(1)" +
		"&_pragma=trusted_schema(0)" +
		"&_pragma=cache_size(-256)" + // KiB a connection
		"&_pragma=wal_autocheckpoint(64)" + // pages of 4 KiB
		"&_pragma=journal_size_limit(1048576)" + parameters
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// ready completes a store for reading.
func (s *Store) ready() (*Store, error) {
	var err error
	if s.reader, err = s.connect("&_query_only=1"); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	s.reader.SetMaxOpenConns(2)
	s.reader.SetMaxIdleConns(1)
	if s.file, err = os.Stat(s.path); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	os.SameFile(s.file, s.file) // on Windows: read the identity now, not at the first comparison
	return s, nil
}

// prepare creates the schema if there is none, and checks the file.
func (s *Store) prepare(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Check before anything is written: the file may belong to another program, or be damaged. The
	// check reads every page, about 1 ms per mebibyte.
	if _, err := identify(ctx, conn); err != nil {
		return err
	}
	var verdict string
	if err := conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return damaged(verdict)
	}
	err = transaction(ctx, conn, func() error {
		made, err := identify(ctx, conn)
		if err != nil {
			return err
		}
		if made {
			// This write changes nothing. It finds out now whether the file can be written; the
			// lock alone does not show that.
			_, err := conn.ExecContext(ctx, "UPDATE counter SET version = version + 1")
			return err
		}
		_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d; %s",
			applicationID, schemaVersion, schema))
		return err
	})
	if err != nil {
		return err
	}
	// Only now, so that every file with content identifies its program from its first byte on.
	// While other processes open the file, SQLite refuses at once instead of waiting.
	mode, err := backoff.Retry(ctx, func() (mode string, err error) {
		err = conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
		if err != nil && code(err) != sqlite3.SQLITE_BUSY {
			err = backoff.Permanent(err)
		}
		return mode, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(5*time.Millisecond)), backoff.WithMaxElapsedTime(busyTimeout))
	if err != nil {
		return err
	}
	if mode != "wal" {
		return errors.New("the file system does not let several processes share it (no write-ahead log): choose a place on a local disk with -store")
	}
	return nil
}

// identify reports whether the file contains a store. If not, it must be empty: everything else is
// an error.
func identify(ctx context.Context, conn *sql.Conn) (made bool, err error) {
	// One statement, so that the answers are consistent.
	var application, version, objects int64
	if err := conn.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&application, &version, &objects); err != nil {
		return false, err
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return false, nil
	case application != applicationID:
		return false, errors.New("it is the SQLite database of another program: choose another place with -store")
	case version > schemaVersion:
		return false, fmt.Errorf("a newer version of Terrapulse has written it (format %d, this version supports %d): "+
			"use that version, or choose another place with -store", version, schemaVersion)
	case version < 1 || objects == 0:
		return false, damaged("it has the header of a store, but no content")
	}
	return true, nil
}

// Get implements state.Store.
func (s *Store) Get(ctx context.Context, key string) (state.Record, error) {
	if err := state.ValidateKey(key); err != nil {
		return state.Record{}, fmt.Errorf("read record: %w", err)
	}
	if err := s.stillThere(); err != nil {
		return state.Record{}, err
	}
	r, err := get(ctx, s.reader, key)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		err = s.explain("read record "+key+" from", err)
	}
	return r, err
}

// get reads one record over any connection.
func get(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, key string) (state.Record, error) {
	r := state.Record{Key: key}
	err := q.QueryRowContext(ctx, "SELECT value, version FROM records WHERE key = ?", key).Scan(&r.Value, &r.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return state.Record{}, state.ErrNotFound
	}
	if err != nil {
		return state.Record{}, err
	}
	return r, nil
}

// List implements state.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]state.Record, error) {
	return s.list(ctx, prefix, "", "ORDER BY key", -1)
}

// Last implements state.Backward.
func (s *Store) Last(ctx context.Context, prefix, before string, n int) ([]state.Record, error) {
	return s.list(ctx, prefix, before, "ORDER BY key DESC", n)
}

// GetSeveral implements state.Several with one query.
func (s *Store) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	if err := s.stillThere(); err != nil {
		return nil, err
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	records, err := s.query(ctx, "SELECT key, value, version FROM records WHERE key IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return nil, s.explain(fmt.Sprintf("read %d records, beginning with %s, from", len(keys), keys[0]), err)
	}
	byKey := make(map[string]state.Record, len(records))
	for _, rec := range records {
		byKey[rec.Key] = rec
	}
	return byKey, nil
}

// list returns at most n records in an order; all if n is negative.
func (s *Store) list(ctx context.Context, prefix, before, order string, n int) ([]state.Record, error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	if err := s.stillThere(); err != nil {
		return nil, err
	}
	if before == "" {
		// The first string after all strings with the prefix. Its characters are ASCII, so the last one
		// has a successor.
		last := len(prefix) - 1
		before = prefix[:last] + string(rune(prefix[last]+1))
	}
	records, err := s.query(ctx, "SELECT key, value, version FROM records WHERE key >= ? AND key < ? "+order+" LIMIT ?", prefix, before, n)
	if err != nil {
		return nil, s.explain("list records "+prefix+"* of", err)
	}
	return records, nil
}

func (s *Store) query(ctx context.Context, query string, args ...any) ([]state.Record, error) {
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []state.Record
	for rows.Next() {
		var r state.Record
		if err := rows.Scan(&r.Key, &r.Value, &r.Version); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, rows.Err()
}

// Close implements state.Store.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.reader, s.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// stillThere reports whether the file was removed or replaced since it was opened. The system
// allows a process to continue with a removed file: the next process would create another one, and
// two processes would lead.
func (s *Store) stillThere() error {
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(now, s.file) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("check store: %w", err)
	}
	return fmt.Errorf("store %s was removed or replaced while in use: restart Terrapulse to use the current file", s.path)
}
