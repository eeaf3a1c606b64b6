// Package inforce decides which bundle a process of the reconcile function
// works with.
//
// Two places name a bundle. The pointer in S3 names the one that was pushed
// last; the reconcile record names the one that is in force. A process replaces
// the bundle in force only if it has read the pointer after it read the record,
// and the pointer names another bundle. If the pointer is gone or cannot be
// read, the process works with the bundle that the record names: what the
// process read earlier may have been replaced since.
package inforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// pointerEvery is how often the pointer is read if no event reports that it has moved.
const pointerEvery = 5 * time.Minute

// ErrNone says that there is no bundle to use.
var ErrNone = errors.New("no bundle is in force")

// ErrNotPushed is the ErrNone of a deployment to which no bundle was pushed yet.
var ErrNotPushed = fmt.Errorf("%w: none was pushed yet; push one with `terrapulse bundle push`", ErrNone)

// Source reads the pointer and bundles; *bundle.Bucket implements it.
type Source interface {
	Current(ctx context.Context) (bundle.Pointer, error)
	// Load returns the configuration in a bundle. If the bundle is invalid, the error is a
	// *bundle.InvalidError.
	Load(ctx context.Context, digest string) (*config.Config, error)
}

// Loaded is a bundle that was read.
type Loaded struct {
	Digest  string
	Config  *config.Config
	Refused *state.Refused // why a newer configuration is not in force
}

// Follower keeps the bundle that a process works with. It serves one invocation
// at a time.
type Follower struct {
	Source Source
	Store  state.Store
	Now    func() time.Time

	// Loaded is the bundle that the process works with, nil if it has read none. It is a
	// new value whenever something about it has changed.
	Loaded *Loaded
	// Problem is why the pointer, or the bundle that it names, could not be read.
	Problem string
	// Replaces is the version of the reconcile record whose bundle the loaded one may
	// replace; see reconcile.TickOptions.
	Replaces string

	read    time.Time // when the pointer was last read
	another string    // version of the record that named another bundle
}

// Forget makes the next Refresh read the pointer.
func (f *Follower) Forget() { f.read = time.Time{} }

// IsOther reports whether a tick was refused because another bundle is in force. The next Refresh
// then decides which of the two to use.
func (f *Follower) IsOther(err error) bool {
	other := new(reconcile.OtherBundleError)
	if !errors.As(err, &other) {
		return false
	}
	f.another = other.Version
	f.Forget()
	return true
}

// Refresh reads the pointer if it is due, and loads the bundle to use if that has changed.
func (f *Follower) Refresh(ctx context.Context, log *slog.Logger) error {
	if since := f.Now().Sub(f.read); f.Loaded != nil && !f.read.IsZero() && since >= 0 && since < pointerEvery {
		return nil
	}
	f.Replaces, f.Problem = "", ""
	pointer, err := f.Source.Current(ctx)
	switch {
	case err != nil:
		return f.keep(ctx, log, fmt.Errorf("read the latest bundle: %w", err))
	case pointer.Digest == "":
		return f.pointerGone(ctx, log)
	case f.Loaded != nil && f.Loaded.Digest == pointer.Digest:
		if f.Loaded.Refused != nil {
			f.Loaded = &Loaded{Digest: pointer.Digest, Config: f.Loaded.Config}
		}
	default:
		cfg, err := f.Source.Load(ctx, pointer.Digest)
		if wrong := (*bundle.InvalidError)(nil); errors.As(err, &wrong) {
			return f.refuse(ctx, log, state.Refused{Bundle: pointer.Digest, Error: state.Cut(wrong.Error()), Since: f.Now()})
		}
		if err != nil {
			return f.keep(ctx, log, err)
		}
		f.Loaded = &Loaded{Digest: pointer.Digest, Config: cfg}
		log.Info("bundle read", "bundle", pointer.Digest, "tasks", len(cfg.Tasks))
	}
	f.read, f.Replaces = f.Now(), f.another
	return nil
}

// keep uses the bundle in force because the latest bundle cannot be read now.
func (f *Follower) keep(ctx context.Context, log *slog.Logger, cause error) error {
	rec, err := f.record(ctx)
	if err != nil || rec.Data.Bundle == "" {
		return errors.Join(cause, err)
	}
	f.Problem = state.Cut(cause.Error())
	log.Warn("cannot read the latest bundle: the previous bundle stays in force", "bundle", rec.Data.Bundle, "error", cause)
	return f.work(ctx, rec.Data.Bundle, rec.Data.Refused)
}

// pointerGone uses the bundle in force because the pointer is missing.
func (f *Follower) pointerGone(ctx context.Context, log *slog.Logger) error {
	rec, err := f.record(ctx)
	switch {
	case err != nil:
		return err
	case rec.Data.Bundle == "":
		return ErrNotPushed
	}
	f.Problem = fmt.Sprintf("the bucket's pointer to the current bundle is gone: bundle %.12s stays in force; push a bundle with `terrapulse bundle push`", rec.Data.Bundle)
	log.Warn("the pointer to the current bundle is missing: the bundle stays in force", "bundle", rec.Data.Bundle)
	return f.work(ctx, rec.Data.Bundle, &state.Refused{Error: f.Problem, Since: f.Now()})
}

// refuse uses the bundle in force because the latest bundle is invalid.
func (f *Follower) refuse(ctx context.Context, log *slog.Logger, refused state.Refused) error {
	log.Error("bundle refused", "bundle", refused.Bundle, "error", refused.Error)
	rec, err := f.record(ctx)
	switch {
	case err != nil:
		return err
	case rec.Data.Bundle != "":
		return f.work(ctx, rec.Data.Bundle, &refused)
	}
	if rec.Data.Refused == nil || rec.Data.Refused.Bundle != refused.Bundle {
		next := rec.Data
		next.Refused = &refused
		events := outbox.NewEvents(outbox.NumberShared(&next, outbox.Event{Kind: outbox.ConfigurationRefused, At: refused.Since, Bundle: refused.Bundle, Error: refused.Error}))
		if _, err := f.Store.Apply(ctx, append(events.Changes(), rec.Write(next))...); err != nil {
			log.Warn("cannot record that the bundle is refused", "bundle", refused.Bundle, "error", err)
		}
	}
	return fmt.Errorf("%w: bundle %.12s is invalid, and there is no previous one: %s", ErrNone, refused.Bundle, refused.Error)
}

func (f *Follower) record(ctx context.Context) (state.Stored[state.Reconcile], error) {
	rec, err := state.Read[state.Reconcile](ctx, f.Store, state.ReconcileKey)
	if err != nil {
		return rec, fmt.Errorf("read the reconcile record for the bundle in force: %w", err)
	}
	return rec, nil
}

// work loads the bundle that the record names, unless it is loaded.
func (f *Follower) work(ctx context.Context, digest string, refused *state.Refused) error {
	next := &Loaded{Digest: digest, Refused: refused}
	if f.Loaded != nil && f.Loaded.Digest == digest {
		next.Config = f.Loaded.Config
	} else {
		var err error
		if next.Config, err = f.Source.Load(ctx, digest); err != nil {
			return fmt.Errorf("read the bundle in force: %w", err)
		}
	}
	f.Loaded, f.read = next, f.Now()
	return nil
}
