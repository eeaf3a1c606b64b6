package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
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
			if err := change(ctx, conn, c, version); err != nil {
				return err
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

// change makes one change, or returns a *state.ConflictError.
func change(ctx context.Context, conn *sql.Conn, c state.Change, version string) error {
	current, err := get(ctx, conn, c.Key)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	if err := c.Conflict(current); err != nil {
		return err
	}
	switch c.Op {
	case state.OpCreate, state.OpReplace:
		var expires any
		if !c.Expires.IsZero() {
			expires = c.Expires.UnixMilli()
		}
		_, err = conn.ExecContext(ctx, `INSERT INTO records (key, value, version, expires) VALUES (?, ?, ?, ?) ON CONFLICT (key)
			DO UPDATE SET value = excluded.value, version = excluded.version, expires = excluded.expires`,
			c.Key, append([]byte{}, c.Value...), version, expires) // an empty value is not NULL
		return err
	case state.OpDelete:
		_, err = conn.ExecContext(ctx, "DELETE FROM records WHERE key = ?", c.Key)
		return err
	}
	return nil
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
