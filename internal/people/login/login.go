// Package login keeps what people get who sign in on the command line: the ID token that commands send to
// an instance, and the refresh token with which they get the next one.
//
// Each address of an instance has a file of its own, and its token is sent there only: an address that
// somebody is lured to gets no token that another one has.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
	"github.com/terrapulse/terrapulse/internal/people/openid"
)

// Login is a person who has signed in at an address.
type Login struct {
	Address       string `json:"address"`
	Issuer        string `json:"issuer"`
	ClientID      string `json:"client_id"`
	UsernameClaim string `json:"username_claim"`
	GroupsClaim   string `json:"groups_claim"`
	CACert        string `json:"ca_cert,omitempty"` // of the provider
	openid.Tokens
}

// Options are those of the provider of a login.
func (l Login) Options() openid.Options {
	return openid.Options{Issuer: l.Issuer, ClientID: l.ClientID, UsernameClaim: l.UsernameClaim, GroupsClaim: l.GroupsClaim, CACert: l.CACert}
}

// Folder has the logins of a person.
type Folder string

// Default is the folder in the user's configuration folder.
func Default() (Folder, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for sign-ins: %w", err)
	}
	return Folder(filepath.Join(dir, "terrapulse", "logins")), nil
}

func (f Folder) file(address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(string(f), hex.EncodeToString(sum[:16])+".json")
}

// Read returns the login at an address; nil if there is none.
func (f Folder) Read(address string) (*Login, error) {
	text, err := os.ReadFile(f.file(address))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sign-in: %w", err)
	}
	var l Login
	if err := json.Unmarshal(text, &l); err != nil || l.Address != address {
		return nil, fmt.Errorf("the file %s has no sign-in at %s: remove it, and sign in again", f.file(address), address)
	}
	return &l, nil
}

// Write keeps a login. Only the user can read it.
func (f Folder) Write(l Login) error {
	text, err := json.Marshal(l)
	if err == nil {
		err = os.MkdirAll(string(f), 0o700)
	}
	if err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	if err := atomicfile.WriteText(f.file(l.Address), string(text)); err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	return nil
}

// Remove removes the login at an address, and reports whether there was one.
func (f Folder) Remove(address string) (bool, error) {
	err := os.Remove(f.file(address))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove the sign-in: %w", err)
	}
	return true, nil
}

// revokeTime is how long the end of a sign-in waits for the OpenID provider.
const revokeTime = 5 * time.Second

// Ended is a sign-in that has ended on this machine.
type Ended struct {
	Was     bool      // there was one
	Revoked bool      // the provider has revoked its refresh token
	Expires time.Time // of the ID token, which nobody can revoke
}

// End removes the login at an address, and then revokes its refresh token if the provider does that. An
// error after the removal is why that failed: the login is removed then, and Was is set.
func (f Folder) End(ctx context.Context, address string) (Ended, error) {
	l, _ := f.Read(address) // a file that cannot be read is removed, too
	was, err := f.Remove(address)
	end := Ended{Was: was}
	if err != nil || l == nil {
		return end, err
	}
	end.Expires = l.Expires
	if l.Refresh == "" {
		return end, nil
	}
	provider, err := openid.New(l.Options())
	if err != nil {
		return end, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, revokeTime, fmt.Errorf("the OpenID provider has not answered within %s", revokeTime))
	defer cancel()
	end.Revoked, err = provider.Revoke(ctx, l.Refresh)
	return end, err
}

// Others are the other addresses at which the person has signed in as the same client: an ID token for one is
// valid at all of them.
func (f Folder) Others(l Login) []string {
	files, _ := filepath.Glob(filepath.Join(string(f), "*.json")) // the pattern is valid
	var all []string
	for _, file := range files {
		var other Login
		text, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(text, &other) == nil && other.Issuer == l.Issuer && other.ClientID == l.ClientID && other.Address != l.Address {
			all = append(all, other.Address)
		}
	}
	return all
}

// early is how long before its end an ID token is renewed.
const early = 30 * time.Second

// Bearer returns what returns the ID token for each request to an address: that of a login, renewed when it
// expires. It is nil if nobody has signed in there.
func (f Folder) Bearer(address string) (func(context.Context) (string, error), error) {
	l, err := f.Read(address)
	if l == nil || err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Until(l.Expires) < early {
			next, err := f.renewed(ctx, *l)
			if err != nil {
				return "", err
			}
			l = &next
		}
		return l.ID, nil
	}, nil
}

// renewed returns a login with a new token: another command may have renewed it already.
func (f Folder) renewed(ctx context.Context, l Login) (Login, error) {
	again := fmt.Sprintf("sign in again with `terrapulse login -http-addr %s`", l.Address)
	signedOut := fmt.Errorf("you have signed out from %s: %s", l.Address, again)
	kept, err := f.Read(l.Address)
	if err != nil {
		return l, err
	}
	if kept == nil {
		return l, signedOut
	}
	l = *kept
	switch {
	case time.Until(l.Expires) >= early:
		return l, nil
	case l.Refresh == "":
		return l, fmt.Errorf("your sign-in has expired: %s", again)
	}
	provider, err := openid.New(l.Options())
	if err != nil {
		return l, err
	}
	tokens, err := provider.Renew(ctx, l.Refresh)
	kept, unread := f.Read(l.Address)
	var down *openid.DownError
	switch {
	case unread == nil && kept == nil: // meanwhile: what was removed stays so
		return l, signedOut
	case err != nil && kept != nil && time.Until(kept.Expires) >= early:
		return *kept, nil // another command was faster: some refresh tokens work once
	case errors.As(err, &down):
		return l, err
	case err != nil:
		return l, fmt.Errorf("%w: %s", err, again)
	}
	l.Tokens = tokens
	return l, f.Write(l)
}
