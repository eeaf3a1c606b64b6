package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Apply implements state.Store.
func (s *Store) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := state.Validate(changes...); err != nil {
		return nil, fmt.Errorf("write to store: %w", err)
	}
	if s.writer == nil {
		return nil, fmt.Errorf("write to store %s: %w", s.path, errReadOnly)
	}
	if err := s.stillThere(); err != nil {
		return nil, err
	}
	records, err := s.apply(ctx, changes)
	if _, conflict := errors.AsType[*state.ConflictError](err); err != nil && !conflict {
		err = s.explain("write to", err)
	}
	return records, err
}

func (s *Store) apply(ctx context.Context, changes []state.Change) ([]state.Record, error) {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	records := make([]state.Record, len(changes))
	err = transaction(ctx, conn, func() error {
		var n int64
		if err := conn.QueryRowContext(ctx, "UPDATE counter SET version = version + 1 RETURNING version").Scan(&n); err != nil {
			return err
		}
		version := strconv.FormatInt(n, 10)
		for i, c := range changes {
			held, err := change(ctx, conn, c, version)
			if err != nil {
				return err
			}
			if !held {
				return conflict(ctx, conn, c)
			}
			if c.Op == state.OpCreate || c.Op == state.OpReplace {
				records[i] = state.Record{Key: c.Key, Value: c.Value, Version: version}
			}
		}
		_, err := conn.ExecContext(ctx, `DELETE FROM records WHERE rowid IN
			(SELECT rowid FROM records WHERE expires <= ? ORDER BY expires LIMIT ?)`, s.now().UnixMilli(), purgePortion)
		return err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// change makes one change, or reports that its condition is false.
func change(ctx context.Context, conn *sql.Conn, c state.Change, version string) (held bool, err error) {
	value := c.Value
	if value == nil {
		value = []byte{} // not NULL
	}
	var expires any
	if !c.Expires.IsZero() {
		expires = c.Expires.UnixMilli()
	}
	var res sql.Result
	switch c.Op {
	case state.OpCreate:
		res, err = conn.ExecContext(ctx, "INSERT INTO records (key, value, version, expires) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			c.Key, value, version, expires)
	case state.OpReplace:
		res, err = conn.ExecContext(ctx, "UPDATE records SET value = ?, version = ?, expires = ? WHERE key = ? AND version = ?",
			value, version, expires, c.Key, c.Version)
	case state.OpDelete:
		res, err = conn.ExecContext(ctx, "DELETE FROM records WHERE key = ? AND version = ?", c.Key, c.Version)
	case state.OpCheck:
		err = conn.QueryRowContext(ctx, "SELECT count(*) FROM records WHERE key = ? AND version = ?", c.Key, c.Version).Scan(&held)
		return held, err
	}
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// conflict returns the error for a change whose condition is false.
func conflict(ctx context.Context, conn *sql.Conn, c state.Change) error {
	current, err := get(ctx, conn, c.Key)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return &state.ConflictError{Change: c}
	case err != nil:
		return err
	}
	return &state.ConflictError{Change: c, Current: &current}
}

// transaction calls do with the write lock held. It commits if do succeeds.
func transaction(ctx context.Context, conn *sql.Conn, do func() error) error {
	// The caller's context must not interrupt the end of a transaction: the caller would not know
	// whether it took place.
	end := context.WithoutCancel(ctx)
	_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		err = do()
	}
	if err == nil {
		if err = ctx.Err(); err == nil {
			_, err = conn.ExecContext(end, "COMMIT")
		}
	}
	if err != nil {
		// Also after a failed BEGIN: if ctx ended meanwhile, the driver also reports failure for
		// one that took place.
		if _, rerr := conn.ExecContext(end, "ROLLBACK"); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
			// Never reuse a connection that may still hold the lock.
			conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	}
	return err
}
