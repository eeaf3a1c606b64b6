// Package credentials keeps what proves who somebody is: named tokens, and the sessions of the pages.
//
// The store has only hashes. A token or the secret of a session is a random number of 256 bits: nobody
// can find it from its SHA-256 by guessing, so that a slow hash, which protects passwords, would only
// make each request slow. Who may read the store cannot use what it has here; who may write the store
// may do everything anyway.
package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// Fresh is how long a record is used that was read: a revocation works after this time everywhere.
	Fresh = 3 * time.Second
	// again is how long a collection is not read again because of names that it lacks.
	again = 100 * time.Millisecond
)

// Keeper keeps the credentials of a store. When a request needs a record, it reads the whole collection, which
// is small, for all requests of that moment: otherwise, each name that somebody makes up would cost a read.
// It is safe for concurrent use.
type Keeper struct {
	store   state.Store
	now     func() time.Time
	reading chan struct{} // has an element during a read

	mu    sync.Mutex
	known map[string]collection // by prefix
}

// collection is what the store has of one kind, as it was read.
type collection struct {
	records map[string]state.Record
	err     error     // why it could not be read
	at      time.Time // by the clock of the keeper
	began   time.Time // by that of the machine
}

// New returns the keeper of a store.
func New(store state.Store, now func() time.Time) *Keeper {
	return &Keeper{store: store, now: now, reading: make(chan struct{}, 1), known: map[string]collection{}}
}

// TokenPrefix is the collection of the tokens.
const TokenPrefix = "token/"

func tokenKey(name string) string { return TokenPrefix + name }

// Token is a named token.
type Token struct {
	Name    string    `json:"name"`
	Hash    string    `json:"hash"` // SHA-256 of the token, in hex
	End     string    `json:"end"`  // its last four characters, so that people recognize it
	Created time.Time `json:"created"`
	By      string    `json:"by"`               // who made it
	Expires time.Time `json:"expires,omitzero"` // never if it is zero
}

// Expired reports whether the token is no longer valid.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// What can be wrong with a token.
var (
	ErrUnknown = errors.New("there is no such token, it was revoked, or it has expired")
	ErrExists  = errors.New("a token has this name already")
	ErrName    = errors.New("not a name of a token: use 1 to 64 letters, digits, dots and dashes; the first is a letter or digit, and names that begin with \"api.\" are reserved")
	ErrExpires = errors.New("a token cannot expire in the past")
)

var named = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,63}$`)

// valid reports whether a token may have the name. The tokens of the configuration have names that begin
// with api.
func valid(name string) bool { return named.MatchString(name) && !strings.HasPrefix(name, "api.") }

// A token is tp_NAME_SECRET: from the name follows which record it needs.
const tokenStart = "tp_"

// nameOf returns the name of a token; "" if it has another form.
func nameOf(token string) string {
	rest, ok := strings.CutPrefix(token, tokenStart)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 0 || !valid(rest[:i]) {
		return ""
	}
	return rest[:i]
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// secret returns a random number of 256 bits, in hex.
func secret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// Create makes a token, which is not kept: it is shown once. Without expires, it is valid until it is
// revoked.
func (k *Keeper) Create(ctx context.Context, name, by string, expires time.Time) (token string, t Token, err error) {
	switch now := k.now(); {
	case !valid(name):
		return "", t, fmt.Errorf("%q is %w", name, ErrName)
	case !expires.IsZero() && !now.Before(expires):
		return "", t, ErrExpires
	default:
		token = tokenStart + name + "_" + secret()
		t = Token{Name: name, Hash: hashOf(token), End: token[len(token)-4:], Created: now.UTC(), By: by, Expires: expires}
	}
	entry := audit.Write(ctx, audit.Entry{Action: audit.CreateToken, Detail: "token:" + name}, by, k.now())
	_, err = k.store.Apply(ctx, state.Create(tokenKey(name), state.Encode(t)), entry)
	if conflict := (*state.ConflictError)(nil); errors.As(err, &conflict) {
		return "", t, ErrExists
	}
	if err != nil {
		return "", t, fmt.Errorf("write the token %s: %w", name, err)
	}
	k.forget(tokenKey(name))
	return token, t, nil
}

// List returns all tokens, also those that have expired, sorted by name.
func (k *Keeper) List(ctx context.Context) ([]Token, error) {
	stored, corrupt, err := state.ReadEach[Token](ctx, k.store, TokenPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	if len(corrupt) > 0 {
		return nil, fmt.Errorf("read the tokens: %w", corrupt[0])
	}
	tokens := make([]Token, len(stored))
	for i, s := range stored {
		tokens[i] = s.Data
	}
	return tokens, nil
}

// Revoke ends a token, and with it all sessions that it has begun.
func (k *Keeper) Revoke(ctx context.Context, name, by string) error {
	if !valid(name) {
		return ErrUnknown
	}
	for {
		rec, err := k.store.Get(ctx, tokenKey(name))
		if errors.Is(err, state.ErrNotFound) {
			return ErrUnknown
		}
		if err == nil {
			_, err = k.store.Apply(ctx, state.Delete(rec), audit.Write(ctx, audit.Entry{Action: audit.RevokeToken, Detail: "token:" + name}, by, k.now()))
		}
		k.forget(tokenKey(name))
		if conflict := (*state.ConflictError)(nil); errors.As(err, &conflict) {
			continue // somebody has made it again, or revoked it
		}
		if err != nil {
			return fmt.Errorf("revoke the token %s: %w", name, err)
		}
		return nil
	}
}

// Token returns the token that somebody has sent. The error is ErrUnknown if it is not valid.
func (k *Keeper) Token(ctx context.Context, token string) (Token, error) {
	name := nameOf(token)
	if name == "" {
		return Token{}, ErrUnknown
	}
	return k.token(ctx, name, hashOf(token))
}

// token returns the valid token with a name, if it has the hash.
func (k *Keeper) token(ctx context.Context, name, hash string) (Token, error) {
	t, err := read[Token](ctx, k, tokenKey(name))
	switch {
	case err != nil:
		return Token{}, err
	case subtle.ConstantTimeCompare([]byte(hash), []byte(t.Hash)) != 1, t.Expired(k.now()):
		return Token{}, ErrUnknown
	}
	return t, nil
}

// read returns a record; ErrUnknown if there is none.
func read[T any](ctx context.Context, k *Keeper, key string) (data T, err error) {
	rec, err := k.find(ctx, prefixOf(key), key)
	if err != nil {
		return data, err
	}
	if rec.Version == "" {
		return data, ErrUnknown
	}
	stored, err := state.Decode[T](rec)
	return stored.Data, err
}

func prefixOf(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// find returns a record; one without a version if there is none. A record that was read a moment ago is used.
// Whether there is none, only a read says that has begun after the request.
func (k *Keeper) find(ctx context.Context, prefix, key string) (state.Record, error) {
	asked := time.Now()
	known := k.collection(prefix)
	if rec, ok := known.records[key]; ok && k.now().Sub(known.at).Abs() < Fresh {
		return rec, nil
	}
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return state.Record{}, ctx.Err()
	}
	if known = k.collection(prefix); known.began.Before(asked) {
		select {
		case <-time.After(time.Until(known.began.Add(again))):
		case <-ctx.Done():
			return state.Record{}, ctx.Err()
		}
		known = k.list(ctx, prefix)
	}
	return known.records[key], known.err
}

// list reads a collection.
func (k *Keeper) list(ctx context.Context, prefix string) collection {
	c := collection{records: map[string]state.Record{}, at: k.now(), began: time.Now()}
	all, err := k.store.List(ctx, prefix)
	if err != nil {
		c.err = fmt.Errorf("read the records %s*: %w", prefix, err)
	}
	for _, rec := range all {
		c.records[rec.Key] = rec
	}
	if ctx.Err() == nil { // else it is the request that has ended
		k.mu.Lock()
		defer k.mu.Unlock()
		k.known[prefix] = c
	}
	return c
}

func (k *Keeper) collection(prefix string) collection {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[prefix]
}

// forget has the next request read the collection of a key again.
func (k *Keeper) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, prefixOf(key))
}
