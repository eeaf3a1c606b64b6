// Package lease lets one of several processes lead: a lease on any
// state.Store, with a fencing token that grows with every holder.
//
// A lease is one record, which is never deleted so that tokens never repeat.
// It is taken by one conditional write that adds 1 to the token. The clocks of
// the processes only decide when somebody tries; what keeps a former leader
// from doing harm is that everything it writes goes through Lease.Apply,
// together with the check that its token still stands.
package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// MaxChanges is how many changes one Lease.Apply takes: one less than a
// store's, for the check of the token.
const MaxChanges = state.MaxChanges - 1

// DefaultTTL is how long a lease lasts without renewal if Options name no
// time: a leader that renews every third of it may miss two renewals, and
// whoever stands by need not wait long after a crash.
const DefaultTTL = 15 * time.Second

// ErrLost is returned when the lease is not one's own any more. It does not
// come back; Acquire a new one.
var ErrLost = errors.New("the lease was taken over by another process or given back")

// HeldError is returned by Acquire while somebody else holds the lease.
type HeldError struct {
	Name  string
	Owner string    // who holds it
	Until time.Time // when it can be taken over if it is not renewed, by one's own clock
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %s is held by %s until %s", e.Name, e.Owner, e.Until.Format(time.RFC3339))
}

// Options of Acquire; the zero value will do on one machine.
type Options struct {
	// TTL is how long the lease lasts unless it is renewed; DefaultTTL if 0.
	TTL time.Duration
	// Skew is how far the clocks of the contenders may be apart: another's
	// lease counts as expired only so long after its time. 0 is right where
	// all share one clock.
	Skew time.Duration
	// Witness, if set, counts instead of the times in the record and of Skew:
	// another's lease is over when it was not renewed for its whole time while
	// this process watched. It takes a contender that stays and tries again
	// and again, and then the clocks may be as far apart as they like.
	Witness *Witness
	// OneClock says that the contenders share one clock: what the record says
	// counts, too, if it is sooner than what the witness says.
	OneClock bool
	// Now tells the time; time.Now if nil.
	Now func() time.Time
}

// A Witness remembers how long the record of a lease has stood as it is, by the
// clock of this process alone. The zero value has seen nothing; it is for one
// lease and one contender, and not for concurrent use.
type Witness struct {
	version string
	since   time.Time
}

// until returns when the lease may be taken over unless it changes: its whole
// time after this version of its record was seen first.
func (w *Witness) until(record state.Record, ttl time.Duration, now time.Time) time.Time {
	if w.version != record.Version || now.Before(w.since) { // a clock that was set back has seen nothing, either
		w.version, w.since = record.Version, now
	}
	return w.since.Add(ttl)
}

// Holder is what the record of a lease says.
type Holder struct {
	Owner   string    `json:"owner"`            // "" if the lease was given back
	Fence   uint64    `json:"fence"`            // token of the latest holder; the first is 1
	Expires time.Time `json:"expires,omitzero"` // by the holder's clock
	// TTL is how long the lease lasts without renewal.
	TTL time.Duration `json:"ttl,omitzero"`
}

// Lease is a lease that was taken. It is safe for concurrent use.
type Lease struct {
	store state.Store
	name  string
	owner string
	fence uint64
	ttl   time.Duration

	mu      sync.Mutex
	record  state.Record // as last seen with this owner and fence
	expires time.Time    // as last written by an answered write
	lost    bool
	given   bool // Release was called: perhaps it is free, whatever was answered
}

// NewOwner returns a name for one line of work in this process, unlike any
// other: host, process and something random.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b := make([]byte, 6)
	rand.Read(b)
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(b))
}

// Read tells who holds the lease called name, or held it last. Where nobody
// ever has, the Holder is zero.
func Read(ctx context.Context, store state.Store, name string) (Holder, error) {
	record, err := store.Get(ctx, key(name))
	if errors.Is(err, state.ErrNotFound) {
		return Holder{}, nil
	}
	if err != nil {
		return Holder{}, fmt.Errorf("read lease %s: %w", name, err)
	}
	return decode(name, record)
}

// Acquire takes the lease called name for owner (see NewOwner), or returns a
// *HeldError. An owner does not wait for itself: it takes over at once, under
// a new token, what an earlier attempt has left. So those that compete need
// different owners, also within one process.
func Acquire(ctx context.Context, store state.Store, name, owner string, opts Options) (*Lease, error) {
	if owner == "" {
		return nil, fmt.Errorf("take lease %s: no owner is named", name)
	}
	if opts.TTL <= 0 {
		opts.TTL = DefaultTTL
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	record, err := store.Get(ctx, key(name))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, fmt.Errorf("read lease %s: %w", name, err)
	}
	for {
		var last Holder
		if record.Version != "" {
			if last, err = decode(name, record); err != nil {
				return nil, err
			}
		}
		now := opts.Now()
		until := opts.until(record, last, now)
		if last.Owner != "" && last.Owner != owner && now.Before(until) {
			return nil, &HeldError{Name: name, Owner: last.Owner, Until: until}
		}
		want := Holder{Owner: owner, Fence: last.Fence + 1, Expires: expiry(now, opts.TTL), TTL: opts.TTL}
		l := &Lease{store: store, name: name, owner: owner, fence: want.Fence, ttl: opts.TTL}
		l.record, err = put(ctx, store, name, record, want)
		if err == nil {
			l.expires = want.Expires
			return l, nil
		}
		refused, ok := errors.AsType[*state.ConflictError](err)
		if !ok || refused.Current == nil || refused.Current.Version == record.Version {
			return nil, fmt.Errorf("take lease %s: %w", name, err)
		}
		record = *refused.Current // someone was faster
	}
}

// until returns when a lease that is not renewed may be taken over. A record
// that says later than the lease lasts was written by a clock that was ahead.
func (o Options) until(record state.Record, last Holder, now time.Time) time.Time {
	ttl := max(last.TTL, o.TTL)
	until := last.Expires.Add(o.Skew)
	wrong := until.Sub(now) > ttl+2*o.Skew
	switch {
	case o.Witness == nil && wrong:
		return now
	case o.Witness == nil:
		return until
	}
	seen := o.Witness.until(record, ttl, now)
	if o.OneClock && until.Before(seen) {
		return until
	}
	return seen
}

// Fence returns the token of this lease. It is greater than that of every
// earlier holder.
func (l *Lease) Fence() uint64 { return l.fence }

// Valid reports whether the holder may still act: the lease has neither been
// lost or given back nor, by the holder's clock, expired.
func (l *Lease) Valid(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && !l.given && now.Before(l.expires)
}

// Renew makes the lease last for its whole time from now on. It returns
// ErrLost if somebody else took it; one that expired without anybody taking
// it is still one's own. After any other error the lease is as it was, as far
// as the holder knows.
func (l *Lease) Renew(ctx context.Context, now time.Time) error {
	next := Holder{Owner: l.owner, Fence: l.fence, Expires: expiry(now, l.ttl), TTL: l.ttl}
	return l.own("renew", func(record state.Record) error {
		written, err := put(ctx, l.store, l.name, record, next)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.record, l.expires = written, next.Expires
		return nil
	})
}

// Release gives the lease back, so that the next one need not wait. The
// record stays, for its token. It returns ErrLost if somebody else took it.
// Once called, the lease is not valid any more, even if Release fails; it may
// then be called again.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.given = true
	l.mu.Unlock()
	err := l.own("give back", func(record state.Record) error {
		_, err := put(ctx, l.store, l.name, record, Holder{Fence: l.fence})
		return err
	})
	if err == nil {
		l.lose()
	}
	return err
}

// Apply makes the changes in the store, provided that this lease still
// stands; it returns ErrLost if it does not, or what the store's Apply returns.
// It takes up to MaxChanges changes.
//
// The store decides, not the clock: an expired lease that nobody has taken
// over still stands, and one that was taken over never does.
func (l *Lease) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if len(changes) > MaxChanges {
		return nil, fmt.Errorf("write under lease %s: %d changes at once, at most %d are possible", l.name, len(changes), MaxChanges)
	}
	var records []state.Record
	err := l.own("write under", func(record state.Record) error {
		all := append([]state.Change{state.Check(record)}, changes...)
		written, err := l.store.Apply(ctx, all...)
		if err == nil {
			records = written[1:]
		}
		return err
	})
	return records, err
}

// own calls do with the record of the lease, once more whenever the record
// has a newer version that is still one's own: a renewal came in between, or
// one whose answer was lost. When the record is somebody else's, it notes that
// the lease is lost.
//
// No lock is held meanwhile, so that a slow write cannot delay the renewal
// that keeps the lease.
func (l *Lease) own(act string, do func(state.Record) error) error {
	for {
		l.mu.Lock()
		record, lost := l.record, l.lost
		l.mu.Unlock()
		if lost {
			return fmt.Errorf("%s lease %s: %w", act, l.name, ErrLost)
		}
		err := do(record)
		refused, ok := errors.AsType[*state.ConflictError](err)
		if !ok || refused.Change.Key != record.Key {
			if err != nil {
				err = fmt.Errorf("%s lease %s: %w", act, l.name, err)
			}
			return err
		}
		if refused.Current != nil && refused.Current.Version == record.Version {
			return fmt.Errorf("%s lease %s: %w", act, l.name, err) // a store that contradicts itself
		}
		if refused.Current == nil || !l.adopt(*refused.Current) {
			l.lose()
			return fmt.Errorf("%s lease %s: %w", act, l.name, ErrLost)
		}
	}
}

// adopt takes over a newer version of the record, if it is one's own.
func (l *Lease) adopt(record state.Record) bool {
	h, err := decode(l.name, record)
	if err != nil || h.Owner != l.owner || h.Fence != l.fence {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.expires = record, h.Expires
	return true
}

func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

func key(name string) string { return "lease/" + name }

// expiry is a time of day, without the reading of this process's clock that
// stands still while the machine sleeps.
func expiry(now time.Time, ttl time.Duration) time.Time { return now.Add(ttl).Round(0).UTC() }

func decode(name string, record state.Record) (Holder, error) {
	var h Holder
	if err := json.Unmarshal(record.Value, &h); err != nil {
		return Holder{}, fmt.Errorf("read lease %s: record %s is not one that Terrapulse writes (%w): restore the store from a backup",
			name, record.Key, err)
	}
	return h, nil
}

// put writes the record of a lease over the one that was read, if there was.
func put(ctx context.Context, store state.Store, name string, read state.Record, h Holder) (state.Record, error) {
	value, err := json.Marshal(h)
	if err != nil {
		return state.Record{}, err
	}
	change := state.Create(key(name), value)
	if read.Version != "" {
		change = state.Replace(read, value)
	}
	written, err := store.Apply(ctx, change)
	if refused, ok := errors.AsType[*state.ConflictError](err); ok && refused.Current != nil && bytes.Equal(refused.Current.Value, value) {
		// What stands in the way is this very write: it took place before,
		// and only its answer was lost. Nobody else writes this token.
		return *refused.Current, nil
	}
	if err != nil {
		return state.Record{}, err
	}
	return written[0], nil
}
