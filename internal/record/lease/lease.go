// Package lease elects one of several processes as leader: a lease on any
// state.Store, with a fencing token that grows with every holder.
//
// A lease is one record, which is never deleted, so that tokens never repeat.
// One conditional write takes it and adds 1 to the token. Clocks only decide
// when a process tries to take it. A former leader can do no harm because it
// writes only through Lease.Apply, which also checks that its token is current.
package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// MaxChanges is the number of changes that one Lease.Apply takes: one less than the store, because
// of the check of the token.
const MaxChanges = state.MaxChanges - 1

// DefaultTTL is used if Options set no TTL. A leader that renews after every third of it may miss
// two renewals, and standby processes need not wait long after a crash.
const DefaultTTL = 15 * time.Second

// ErrLost is returned when this process no longer holds the lease. It cannot be restored; Acquire a
// new one.
var ErrLost = errors.New("the lease was taken over by another process or released")

// HeldError is returned by Acquire while another owner holds the lease.
type HeldError struct {
	Name  string
	Owner string    // the holder
	Fence uint64    // its token
	Until time.Time // when it can be taken over if it is not renewed, by the clock of this process
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %s is held by %s until %s", e.Name, e.Owner, clock.UTC(e.Until))
}

// Options of Acquire; the zero value is sufficient on one machine.
type Options struct {
	// TTL is how long the lease is valid without renewal; DefaultTTL if 0.
	TTL time.Duration
	// Skew is the maximum difference between the clocks of the contenders: another owner's lease
	// counts as expired only this long after its time. Use 0 if all share one clock.
	Skew time.Duration
	// Witness, if set, replaces the times in the record and Skew: another owner's lease is over if
	// it was not renewed for its whole TTL while this process watched. The contender must keep
	// trying; clocks may then differ by any amount.
	Witness *Witness
	// OneClock says that the contenders share one clock: the lease is also over when the record
	// says so, if that is earlier than the witness's time.
	OneClock bool
	// Skip is how many tokens are left out: where some were perhaps issued that the record
	// does not show, because the store was restored from a backup.
	Skip uint64
	// Known, if set, replaces the reading of the record by what this process knows of it. What is
	// outdated costs one refused write.
	Known *Known
	// Now returns the current time; time.Now if nil.
	Now func() time.Time
	// Also returns changes that are made in the same step in which next takes the
	// lease after last; may be nil.
	Also func(next, last Holder) []state.Change
}

// A Witness remembers since when the record of a lease is unchanged, by the clock of this process.
// The zero value has seen nothing. It is for one lease and one contender, and not for concurrent
// use.
type Witness struct {
	version string
	since   time.Time
}

// Known is the record of a lease as this process has left it. The zero value knows nothing. It is for
// one lease and one contender, and not for concurrent use.
type Known struct {
	left state.Stored[Holder]
}

// until returns when the lease may be taken over unless it changes: its whole TTL after this
// version of its record was first seen.
func (w *Witness) until(record state.Record, ttl time.Duration, now time.Time) time.Time {
	if w.version != record.Version || now.Before(w.since) { // after a step back of the clock, start again
		w.version, w.since = record.Version, now
	}
	return w.since.Add(ttl)
}

// Holder is the content of the record of a lease.
type Holder struct {
	Owner   string    `json:"owner"`            // "" if the lease was released
	Fence   uint64    `json:"fence"`            // token of the latest holder; the first is 1
	Expires time.Time `json:"expires,omitzero"` // by the holder's clock
	// TTL is how long the lease is valid without renewal.
	TTL time.Duration `json:"ttl,omitzero"`
}

// Lease is an acquired lease. It is safe for concurrent use.
type Lease struct {
	store state.Store
	name  string
	fence uint64
	known *Known // may be nil
	again bool   // nobody has held the lease since this process did

	mu       sync.Mutex
	held     state.Stored[Holder] // as last seen with this owner and fence
	lost     bool
	released bool // Release was called: the lease may be free, even if the answer was an error
}

// NewOwner returns a unique name for a contender in this process: host, process and a random part.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(b))
}

// Read returns the current or last holder of the lease called name. If nobody has ever held it, the
// Holder is zero.
func Read(ctx context.Context, store state.Store, name string) (Holder, error) {
	held, err := state.Read[Holder](ctx, store, key(name))
	return held.Data, unread(name, err)
}

// Acquire takes the lease called name for owner (see NewOwner), or returns a *HeldError. An owner
// does not wait for itself: it takes its own earlier lease over at once, under a new token. So
// contenders need different owners, also within one process.
func Acquire(ctx context.Context, store state.Store, name, owner string, opts Options) (*Lease, error) {
	if owner == "" {
		return nil, fmt.Errorf("take lease %s: the owner is empty", name)
	}
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	last, err := opts.read(ctx, store, name)
	for again := opts.Known != nil && opts.Known.left.Exists(); ; again = false {
		if err != nil {
			return nil, unread(name, err)
		}
		now := opts.Now()
		until := opts.until(last, now)
		if last.Data.Owner != "" && last.Data.Owner != owner && now.Before(until) {
			return nil, &HeldError{Name: name, Owner: last.Data.Owner, Fence: last.Data.Fence, Until: until}
		}
		want := Holder{Owner: owner, Fence: last.Data.Fence + 1 + opts.Skip, Expires: expiry(now, opts.TTL), TTL: opts.TTL}
		var also []state.Change
		if opts.Also != nil {
			also = opts.Also(want, last.Data)
		}
		l := &Lease{store: store, name: name, fence: want.Fence, known: opts.Known, again: again}
		if l.held, _, err = put(ctx, store, last, want, also...); err == nil {
			return l, nil
		}
		refused, ok := errors.AsType[*state.ConflictError](err)
		if !ok || refused.Current == nil || refused.Current.Version == last.Version {
			return nil, fmt.Errorf("take lease %s: %w", name, err)
		}
		last, err = state.Decode[Holder](*refused.Current) // another contender was faster
	}
}

// read returns the record, as far as known from before.
func (o Options) read(ctx context.Context, store state.Store, name string) (state.Stored[Holder], error) {
	if o.Known != nil && o.Known.left.Exists() {
		return o.Known.left, nil
	}
	return state.Read[Holder](ctx, store, key(name))
}

// until returns when a lease that is not renewed may be taken over. An expiry later than the TTL
// allows was written by a clock that was ahead.
func (o Options) until(last state.Stored[Holder], now time.Time) time.Time {
	ttl := max(last.Data.TTL, o.TTL)
	until := last.Data.Expires.Add(o.Skew)
	wrong := until.Sub(now) > ttl+2*o.Skew
	switch {
	case o.Witness == nil && wrong:
		return now
	case o.Witness == nil:
		return until
	}
	seen := o.Witness.until(last.Record, ttl, now)
	if o.OneClock && until.Before(seen) {
		return until
	}
	return seen
}

// Fence returns the fencing token of this lease. It is greater than the tokens of all earlier
// holders.
func (l *Lease) Fence() uint64 { return l.fence }

// Again reports whether nobody has held the lease since this process released it (Options.Known).
func (l *Lease) Again() bool { return l.again }

// Valid reports whether the holder may still act: the lease is neither lost nor released nor, by
// the holder's clock, expired.
func (l *Lease) Valid(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && !l.released && now.Before(l.held.Data.Expires)
}

// Renew extends the lease to its whole TTL from now on. It returns ErrLost if another owner took
// it; an expired lease that nobody took can still be renewed. After any other error the lease is
// unchanged, as far as the holder knows.
func (l *Lease) Renew(ctx context.Context, now time.Time) error {
	return l.withRecord("renew", func(held state.Stored[Holder]) error {
		next := held.Data
		next.Expires = expiry(now, next.TTL)
		written, _, err := put(ctx, l.store, held, next)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = written
		return nil
	})
}

// Release gives the lease up, so that the next contender need not wait. The record stays, because
// of its token. It returns ErrLost if another owner took the lease. After the call the lease is not
// valid, even if Release fails; it may then be called again.
//
// It makes the other changes in the same step.
func (l *Lease) Release(ctx context.Context, also ...state.Change) error {
	_, err := l.ReleaseWith(ctx, also...)
	return err
}

// ReleaseWith does what Release does, and returns the records of the other changes. There are none if
// an earlier attempt succeeded whose answer was lost.
func (l *Lease) ReleaseWith(ctx context.Context, also ...state.Change) ([]state.Record, error) {
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	var records []state.Record
	err := l.withRecord("give back", func(held state.Stored[Holder]) error {
		left, written, err := put(ctx, l.store, held, Holder{Fence: l.fence}, also...)
		if records = written; err == nil && l.known != nil {
			l.known.left = left
		}
		return err
	})
	if err == nil {
		l.lose()
	}
	return records, err
}

// Apply makes the changes in the store if this lease is current. Otherwise
// it returns ErrLost. It takes up to MaxChanges changes.
//
// The store decides, not the clock: an expired lease that nobody has taken
// over is still current; a lease that was taken over is not.
func (l *Lease) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if len(changes) > MaxChanges {
		return nil, fmt.Errorf("write under lease %s: %d changes, at most %d are allowed", l.name, len(changes), MaxChanges)
	}
	var records []state.Record
	err := l.withRecord("write under", func(held state.Stored[Holder]) error {
		all := append([]state.Change{state.Check(held.Record)}, changes...)
		written, err := l.store.Apply(ctx, all...)
		if err == nil {
			records = written[1:]
		}
		return err
	})
	return records, err
}

// withRecord calls do with the record of the lease. It repeats the call if the
// record has a newer version of the same owner: after a renewal in between, or
// after one whose answer was lost. If another owner has the record, it marks
// the lease as lost.
//
// No lock is held meanwhile, so that a slow write cannot delay the renewal.
func (l *Lease) withRecord(act string, do func(state.Stored[Holder]) error) error {
	for {
		l.mu.Lock()
		held, lost := l.held, l.lost
		l.mu.Unlock()
		err := ErrLost
		if !lost {
			err = do(held)
		}
		refused, ok := errors.AsType[*state.ConflictError](err)
		switch {
		case err == nil:
			return nil
		case !ok || refused.Change.Key != held.Key:
		case refused.Current != nil && refused.Current.Version == held.Version: // a store that contradicts itself
		case refused.Current != nil && l.adopt(*refused.Current):
			continue
		default:
			l.lose()
			err = ErrLost
		}
		return fmt.Errorf("%s lease %s: %w", act, l.name, err)
	}
}

// adopt takes over a newer version of the record if it has the same owner.
func (l *Lease) adopt(record state.Record) bool {
	next, err := state.Decode[Holder](record)
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := err == nil && next.Data.Owner == l.held.Data.Owner && next.Data.Fence == l.fence
	if mine {
		l.held = next
	}
	return mine
}

func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

func key(name string) string { return "lease/" + name }

// expiry returns a time without the monotonic clock reading, which stops while the machine sleeps.
func expiry(now time.Time, ttl time.Duration) time.Time { return now.Add(ttl).Round(0).UTC() }

// unread adds to an error of reading a lease what a person can do.
func unread(name string, err error) error {
	if corrupt, ok := errors.AsType[*state.CorruptError](err); ok {
		return fmt.Errorf("read lease %s: record %s was not written by Terrapulse (%w): restore the store from a backup",
			name, corrupt.Record.Key, corrupt.Err)
	}
	if err != nil {
		return fmt.Errorf("read lease %s: %w", name, err)
	}
	return nil
}

// put writes the record of a lease, on the condition that it is still as read. It returns the records
// of the other changes, too, unless this very write took place before.
func put(ctx context.Context, store state.Store, read state.Stored[Holder], h Holder, also ...state.Change) (state.Stored[Holder], []state.Record, error) {
	change := read.Write(h)
	written, err := store.Apply(ctx, append([]state.Change{change}, also...)...)
	if refused, ok := errors.AsType[*state.ConflictError](err); ok && refused.Current != nil && bytes.Equal(refused.Current.Value, change.Value) {
		// Only the answer of the earlier attempt was lost. Nobody else writes this token.
		written, err = []state.Record{*refused.Current}, nil
	}
	if err != nil {
		return read, nil, err
	}
	return state.Stored[Holder]{Record: written[0], Data: h}, written[1:], nil
}
