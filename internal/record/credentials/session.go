package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// sessionPrefix is the collection of the sessions. The store has the hash of a session's secret, so that
// who may read the store cannot use it.
const sessionPrefix = "session/"

func sessionKey(secret string) string { return sessionPrefix + hashOf(secret) }

const (
	// maxSessions is how many sessions a store has; the oldest ones end if there would be more.
	maxSessions = 1000
	// maxOwn is the same for one identity: nobody can end the sessions of others by signing in often.
	maxOwn = 50
)

// Session is a viewer of the pages who has proven who they are.
type Session struct {
	Identity identity.Identity `json:"identity"`
	Began    time.Time         `json:"began"`
	Expires  time.Time         `json:"expires"`
	// Token and Hash are of the token that has begun the session, which ends with it; "" if it was none.
	Token string `json:"token,omitempty"`
	Hash  string `json:"hash,omitempty"`
	// Provider is the OpenID provider that has signed the viewer in, in the words of the server; "" if it was none.
	Provider string `json:"provider,omitempty"`
}

// Session returns a session that the token begins. It ends when the token expires, or at the latest
// after the time.
func (t Token) Session(now time.Time, lasts time.Duration) Session {
	s := Session{Identity: t.Identity(), Began: now, Expires: now.Add(lasts), Token: t.Name, Hash: t.Hash}
	if !t.Expires.IsZero() && t.Expires.Before(s.Expires) {
		s.Expires = t.Expires
	}
	return s
}

// Begin keeps a session, and returns its secret.
func (k *Keeper) Begin(ctx context.Context, s Session) (string, error) {
	k.tidy(ctx, s.Identity.Name)
	own := secret()
	_, err := k.store.Apply(ctx, state.Create(sessionKey(own), state.Encode(s)).Until(s.Expires))
	if err != nil {
		return "", fmt.Errorf("write the session: %w", err)
	}
	return own, nil
}

// Session returns the session with a secret. The error is ErrUnknown if it is not valid.
func (k *Keeper) Session(ctx context.Context, secret string) (Session, error) {
	s, err := read[Session](ctx, k, sessionKey(secret))
	if err == nil && !k.now().Before(s.Expires) {
		err = ErrUnknown
	}
	if err == nil && s.Token != "" {
		_, err = k.token(ctx, s.Token, s.Hash)
	}
	if err != nil {
		return Session{}, err
	}
	return s, nil
}

// End ends a session and returns it; it is no error if there is none.
func (k *Keeper) End(ctx context.Context, secret string) (Session, error) {
	key := sessionKey(secret)
	rec, err := k.store.Get(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		return Session{}, nil
	}
	if err == nil {
		_, err = k.store.Apply(ctx, state.Delete(rec))
	}
	k.forget(key)
	if err != nil {
		return Session{}, fmt.Errorf("remove the session: %w", err)
	}
	ended, err := state.Decode[Session](rec)
	if err != nil {
		return Session{}, nil // nobody could use it
	}
	return ended.Data, nil
}

// tidy removes sessions that have expired, and the oldest ones if there are too many, of an identity that
// begins another one or in all. What it cannot remove, the next one removes.
func (k *Keeper) tidy(ctx context.Context, who string) {
	all, corrupt, err := state.ReadEach[Session](ctx, k.store, sessionPrefix)
	if err != nil {
		return
	}
	for _, wrong := range corrupt {
		_, _ = k.store.Apply(ctx, state.Delete(wrong.Record))
	}
	for _, s := range tooMany(all, who, k.now()) {
		_, _ = k.store.Apply(ctx, state.Delete(s.Record))
		k.forget(s.Key)
	}
}

// tooMany are the sessions that end when an identity begins another one: those that have expired, and of
// the others the oldest.
func tooMany(all []state.Stored[Session], who string, now time.Time) (over []state.Stored[Session]) {
	var valid []state.Stored[Session]
	own := 0
	for _, s := range all {
		if !now.Before(s.Data.Expires) {
			over = append(over, s)
			continue
		}
		if valid = append(valid, s); s.Data.Identity.Name == who {
			own++
		}
	}
	slices.SortFunc(valid, func(a, b state.Stored[Session]) int { return a.Data.Began.Compare(b.Data.Began) })
	left := len(valid) - max(0, own-maxOwn+1)
	for _, s := range valid {
		switch {
		case s.Data.Identity.Name == who && own >= maxOwn:
			own--
		case left >= maxSessions:
			left--
		default:
			continue
		}
		over = append(over, s)
	}
	return over
}
