package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// damaged is the result of SQLite's own check.
type damaged string

func (d damaged) Error() string { return string(d) }

// code returns SQLite's primary code of an error, 0 if it has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds to an error what was being done, and what a person can do.
func (s *Store) explain(act string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s store %s: %w", act, s.path, err)
	}
	const leave = "it is left as it is. Stop every Terrapulse that uses it, put a backup in its place or move it away " +
		"(with its -wal and -shm files, if there are any) and start again: without it every task is applied once more, " +
		"and nothing that Terraform manages is lost, for Terraform's own state lies elsewhere"
	if _, ok := errors.AsType[noState](err); ok {
		return err
	}
	if _, ok := errors.AsType[damaged](err); ok {
		return fmt.Errorf("%s store %s: the file is damaged (%w); %s", act, s.path, err, leave)
	}
	switch code(err) {
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%s store %s: the file is damaged (%w); %s", act, s.path, err, leave)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%s store %s: it is not a store, or its first bytes are damaged (%w); %s", act, s.path, err, leave)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%s store %s: there is no space left on the disk and nothing was written (%w); free some space", act, s.path, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%s store %s: it is read-only (%w); allow writing to the file and its folder, or choose another place with -store", act, s.path, err)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%s store %s: it cannot be opened (%w); allow reading and writing of the file and its folder, or choose another place with -store", act, s.path, err)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("%s store %s: another program has kept it locked for %s (%w); end the program that keeps it open", act, s.path, busyTimeout, err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%s store %s: the disk refused (%w); check its free space and its health", act, s.path, err)
	}
	return fmt.Errorf("%s store %s: %w", act, s.path, err)
}
