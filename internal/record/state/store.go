// Package state keeps what Terrapulse knows between ticks and processes: who
// leads, what was observed and applied for each task, and which runs there are.
//
// The package itself holds the domain records and the contract of a Store; a
// back-end is a sub-package of about one file (sqlite) that passes statetest.
package state

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits that every back-end keeps. They are the smallest of DynamoDB (100
// items a transaction, 400 KB an item) and Consul's KV (64 operations a
// transaction, 512 KB a request, base64 included).
const (
	MaxChanges = 63        // changes of one Apply
	MaxWrite   = 64        // changes that a back-end takes: package summary adds one
	MaxBytes   = 256 << 10 // keys and values of one Apply, in bytes
)

// A Store keeps small records by key. Keys are paths of two or more non-empty
// elements, "collection/name[/name...]", of printable ASCII without spaces, at
// most MaxKey bytes long.
//
// Everything that can be conditional is: leases, fences, claims and retention
// are written once, on top of Apply. Methods are safe for concurrent use, also
// from several processes on the same store, and a read sees every write that
// was answered before it began.
type Store interface {
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)

	// List returns the records whose keys begin with prefix, in key order.
	// The prefix holds at least a whole collection and its slash.
	List(ctx context.Context, prefix string) ([]Record, error)

	// Apply makes all changes or none. It returns the written records in the
	// order of the changes (zero for Delete and Check). When a condition does
	// not hold it returns a *ConflictError with the current record. What Validate refuses is refused, and no changes are nothing to do.
	// A back-end that has lost an answer and finds its own write in the store
	// reports success.
	Apply(ctx context.Context, changes ...Change) ([]Record, error)

	// Close releases what the store holds. It does not wait for anything else.
	Close() error
}

// Record is one stored value.
type Record struct {
	Key     string
	Value   []byte
	Version string // changes with every write, never repeats for a key
}

// Op is what a Change does.
type Op int

// The operations. Each but Create holds only for the version that was read.
const (
	OpCreate  Op = iota + 1 // write a record that does not exist
	OpReplace               // write over this version
	OpDelete                // remove this version
	OpCheck                 // change nothing, but refuse if it is no longer this version
)

// Apply makes changes as Store.Apply does, such as under the lease of the leader.
type Apply = func(ctx context.Context, changes ...Change) ([]Record, error)

// Change is one step of an Apply.
type Change struct {
	Op      Op
	Key     string
	Value   []byte
	Version string
	// Expires, if set, is when the record has become garbage. A back-end may
	// remove it any time after that, or never: it is no way to end a lease.
	// A Replace without it makes the record stay for good.
	Expires time.Time
}

// Create writes a record that must not exist yet.
func Create(key string, value []byte) Change {
	return Change{Op: OpCreate, Key: key, Value: value}
}

// Replace writes over a record as it was read.
func Replace(read Record, value []byte) Change {
	return Change{Op: OpReplace, Key: read.Key, Value: value, Version: read.Version}
}

// write creates the record, or writes over it if it has a Version.
func (r Record) write(value []byte) Change {
	if r.Version == "" {
		return Create(r.Key, value)
	}
	return Replace(r, value)
}

// Delete removes a record as it was read.
func Delete(read Record) Change {
	return Change{Op: OpDelete, Key: read.Key, Version: read.Version}
}

// Check refuses the whole Apply if the record is not as it was read.
func Check(read Record) Change {
	return Change{Op: OpCheck, Key: read.Key, Version: read.Version}
}

// Until returns the change with a time after which the record is garbage.
func (c Change) Until(t time.Time) Change {
	c.Expires = t
	return c
}

// ErrNotFound is returned by Get for a key that has no record.
var ErrNotFound = errors.New("no such record")

// ErrGone is the ErrNotFound of output that was kept outside of the store, and is not kept any more.
var ErrGone = fmt.Errorf("the output no longer exists (%w)", ErrNotFound)

// Conflict returns a *ConflictError if the change's condition is false for the
// current record, which has no Version if there is none.
func (c Change) Conflict(current Record) error {
	switch current.Version {
	case c.Version: // a Create has none
		return nil
	case "":
		return &ConflictError{Change: c}
	}
	return &ConflictError{Change: c, Current: &current}
}

// ConflictError is returned by Apply when a condition does not hold.
type ConflictError struct {
	Change  Change
	Current *Record // the current record; nil if there is none
}

func (e *ConflictError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("record %s is gone", e.Change.Key)
	}
	return fmt.Sprintf("record %s was changed by someone else", e.Change.Key)
}
