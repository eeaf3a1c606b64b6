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
	if _, ok := errors.AsType[noState](err); ok {
		return err
	}
	problem := problems[code(err)]
	if _, ok := errors.AsType[damaged](err); ok {
		problem = problems[sqlite3.SQLITE_CORRUPT]
	}
	if problem.what == "" {
		return fmt.Errorf("%s store %s: %w", act, s.path, err)
	}
	return fmt.Errorf("%s store %s: %s (%w); %s", act, s.path, problem.what, err, problem.advice)
}

const restore = "it was not changed. Stop every Terrapulse that uses it, restore a backup or move it away (with its -wal and -shm files, " +
	"if there are any) and start again: without it, every task is applied once more, and nothing that Terraform manages is lost, " +
	"because Terraform's own state is stored elsewhere"

// problems are the problems that SQLite reports, by its primary codes.
var problems = map[int]struct{ what, advice string }{
	sqlite3.SQLITE_CORRUPT:  {"the file is damaged", restore},
	sqlite3.SQLITE_NOTADB:   {"it is not a store, or its first bytes are damaged", restore},
	sqlite3.SQLITE_FULL:     {"there is no space left on the disk and nothing was written", "free some space"},
	sqlite3.SQLITE_READONLY: readOnlyProblem,
	sqlite3.SQLITE_PERM:     readOnlyProblem,
	sqlite3.SQLITE_CANTOPEN: {"it cannot be opened", "allow reading and writing of the file and its folder, or choose another place with -store"},
	sqlite3.SQLITE_BUSY:     {"another program has kept it locked for " + busyTimeout.String(), "end the program that keeps it open"},
	sqlite3.SQLITE_IOERR:    {"the disk refused", "check its free space and its health"},
}

var readOnlyProblem = struct{ what, advice string }{"it is read-only", "allow writing to the file and its folder, or choose another place with -store"}
