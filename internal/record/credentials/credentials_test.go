package credentials_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// counted is a store that counts its reads.
type counted struct {
	state.Store
	reads int
	fails error
}

func (c *counted) Get(ctx context.Context, key string) (state.Record, error) {
	c.reads++
	if c.fails != nil {
		return state.Record{}, c.fails
	}
	return c.Store.Get(ctx, key)
}

func (c *counted) List(ctx context.Context, prefix string) ([]state.Record, error) {
	c.reads++
	if c.fails != nil {
		return nil, c.fails
	}
	return c.Store.List(ctx, prefix)
}

// bed is a store with two processes that use it.
type bed struct {
	*counted
	now        time.Time
	own, other *credentials.Keeper
}

func newBed(t *testing.T) *bed {
	b := &bed{counted: &counted{Store: statetest.NewMemory()}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return b.now }
	b.own, b.other = credentials.New(b.counted, clock), credentials.New(b.counted, clock)
	return b
}

func (b *bed) create(t *testing.T, name string, expires time.Time) string {
	t.Helper()
	token, made, err := b.own.Create(t.Context(), name, "jo", expires)
	if err != nil || made.End != token[len(token)-4:] || !strings.HasPrefix(token, "tp_"+name+"_") || len(token) < 64 {
		t.Fatalf("%q, %+v, %v", token, made, err)
	}
	return token
}

func TestToken_IsValidUntilItIsRevokedOrExpires(t *testing.T) {
	b := newBed(t)
	ci, brief := b.create(t, "ci", time.Time{}), b.create(t, "brief", b.now.Add(time.Minute))
	check := func(token, want string) {
		t.Helper()
		for _, k := range []*credentials.Keeper{b.own, b.other} {
			got, err := k.Token(t.Context(), token)
			if got.Name != want || (want == "") != errors.Is(err, credentials.ErrUnknown) {
				t.Errorf("%q, %v; want %q", got.Name, err, want)
			}
		}
	}
	check(ci, "ci")
	check(brief, "brief")
	for _, wrong := range []string{"", "tp_ci_", ci + "0", strings.Replace(ci, "ci", "brief", 1), strings.ToUpper(ci), "tp_../x_y", "tp_nosuch_00", strings.TrimPrefix(ci, "tp_")} {
		check(wrong, "")
	}
	if _, _, err := b.other.Create(t.Context(), "ci", "eve", time.Time{}); !errors.Is(err, credentials.ErrExists) {
		t.Errorf("a token is replaced: %v", err)
	}
	check(ci, "ci")
	b.now = b.now.Add(time.Minute)
	check(brief, "")
	if err := b.own.Revoke(t.Context(), "ci", "ann"); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(credentials.Fresh)
	check(ci, "")
	if err := b.own.Revoke(t.Context(), "ci", "ann"); !errors.Is(err, credentials.ErrUnknown) {
		t.Error(err)
	}
	again := b.create(t, "ci", time.Time{})
	b.now = b.now.Add(credentials.Fresh)
	check(ci, "")
	check(again, "ci")
}

func TestToken_NameAndEndAreChecked(t *testing.T) {
	b := newBed(t)
	for _, name := range []string{"", "a b", "a_b", "a/b", "api.token", "-a", strings.Repeat("a", 65), "ä"} {
		if _, _, err := b.own.Create(t.Context(), name, "jo", time.Time{}); !errors.Is(err, credentials.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
		if err := b.own.Revoke(t.Context(), name, "ann"); !errors.Is(err, credentials.ErrUnknown) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, _, err := b.own.Create(t.Context(), "ci", "jo", b.now); !errors.Is(err, credentials.ErrExpires) {
		t.Error(err)
	}
}

func TestToken_StoreDoesNotHaveIt(t *testing.T) {
	b := newBed(t)
	token := b.create(t, "ci", time.Time{})
	found, err := b.own.Token(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.own.Begin(t.Context(), found.Session(b.now, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"token/", "session/"} {
		records, err := b.Store.List(t.Context(), prefix)
		if err != nil || len(records) != 1 {
			t.Fatal(records, err)
		}
		text := records[0].Key + string(records[0].Value)
		if strings.Contains(text, token) || strings.Contains(text, session) || strings.Contains(text, token[len(token)-64:]) {
			t.Errorf("the store has a secret: %s", text)
		}
		for _, stolen := range []string{found.Hash, records[0].Key, strings.TrimPrefix(records[0].Key, prefix)} {
			if _, err := b.own.Session(t.Context(), stolen); !errors.Is(err, credentials.ErrUnknown) {
				t.Errorf("what the store has is a session: %v", err)
			}
			if _, err := b.own.Token(t.Context(), "tp_ci_"+stolen); !errors.Is(err, credentials.ErrUnknown) {
				t.Errorf("what the store has is a token: %v", err)
			}
		}
	}
}

func TestSession_EndsWithItsTokenOrItsTime(t *testing.T) {
	b := newBed(t)
	begin := func(name string, expires time.Time) string {
		t.Helper()
		found, err := b.own.Token(t.Context(), b.create(t, name, expires))
		if err != nil {
			t.Fatal(err)
		}
		secret, err := b.own.Begin(t.Context(), found.Session(b.now, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	ci, brief, out := begin("ci", time.Time{}), begin("brief", b.now.Add(time.Minute)), begin("out", time.Time{})
	check := func(what, secret string, valid bool) {
		t.Helper()
		for _, k := range []*credentials.Keeper{b.own, b.other} {
			if _, err := k.Session(t.Context(), secret); (err == nil) != valid {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	check("a session", ci, true)
	if got, _ := b.other.Session(t.Context(), ci); got.Identity.Name != "token:ci" || !got.Identity.Proven() {
		t.Errorf("%+v", got)
	}
	if ended, err := b.own.End(t.Context(), out); err != nil || ended.Identity.Name != "token:out" {
		t.Fatal(ended, err)
	}
	b.now = b.now.Add(time.Minute)
	check("a session that was ended", out, false)
	check("a session whose token has expired", brief, false)
	check("a session", ci, true)
	if err := b.other.Revoke(t.Context(), "ci", "ann"); err != nil {
		t.Fatal(err)
	}
	b.create(t, "ci", time.Time{}) // another one of the same name
	b.now = b.now.Add(credentials.Fresh)
	check("a session whose token was revoked", ci, false)
	last := begin("last", time.Time{})
	b.now = b.now.Add(time.Hour)
	check("a session after its time", last, false)
	begin("tidy", time.Time{})
	if all, err := b.Store.List(t.Context(), "session/"); err != nil || len(all) != 1 {
		t.Errorf("%d sessions are kept: %v", len(all), err)
	}
}

func TestSession_NobodyEndsThoseOfOthersBySigningInOften(t *testing.T) {
	b := newBed(t)
	begin := func(who string) string {
		t.Helper()
		b.now = b.now.Add(time.Second)
		secret, err := b.own.Begin(t.Context(), credentials.Session{Identity: identity.Identity{Name: who, Proof: identity.OIDC}, Began: b.now, Expires: b.now.Add(10 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	ann, first := begin("user:ann"), begin("user:mallory")
	latest := ""
	for range 120 {
		latest = begin("user:mallory")
	}
	for secret, valid := range map[string]bool{ann: true, first: false, latest: true} {
		if s, err := b.other.Session(t.Context(), secret); (err == nil) != valid {
			t.Errorf("that of %s: %v", s.Identity.Name, err)
		}
	}
	if all, err := b.Store.List(t.Context(), "session/"); err != nil || len(all) != 51 {
		t.Errorf("%d sessions are kept: %v", len(all), err)
	}
}

// Anybody who can reach the API can make up names and secrets.
func TestToken_MadeUpNamesCostFewReads(t *testing.T) {
	b := newBed(t)
	token := b.create(t, "ci", time.Time{})
	if _, err := b.own.Token(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if _, err := b.own.Token(t.Context(), fmt.Sprintf("tp_x%d_%s", i, strings.Repeat("0", 64))); !errors.Is(err, credentials.ErrUnknown) {
				t.Error(err)
			}
			if _, err := b.own.Session(t.Context(), fmt.Sprint(i)); !errors.Is(err, credentials.ErrUnknown) {
				t.Error(err)
			}
			if _, err := b.own.Token(t.Context(), token); err != nil {
				t.Errorf("beside them, a valid token: %v", err)
			}
		})
	}
	all.Wait()
	if most := 2 * (2 + int(time.Since(began)/(100*time.Millisecond))); b.reads > most {
		t.Errorf("%d reads in %s", b.reads, time.Since(began))
	}
	made := b.create(t, "new", time.Time{})
	if _, err := b.other.Token(t.Context(), "tp_x_0"); !errors.Is(err, credentials.ErrUnknown) {
		t.Error(err)
	}
	later, _, err := b.own.Create(t.Context(), "later", "jo", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{made, later} {
		if _, err := b.other.Token(t.Context(), token); err != nil {
			t.Errorf("a token that was made after the latest read: %v", err)
		}
	}
}

func TestToken_IsReadAtMostOnceInAFewSeconds(t *testing.T) {
	b := newBed(t)
	token := b.create(t, "ci", time.Time{})
	for range 100 {
		b.now = b.now.Add(credentials.Fresh / 50)
		if _, err := b.own.Token(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if b.reads > 3 {
		t.Errorf("%d reads in %s", b.reads, 2*credentials.Fresh)
	}
	b.now, b.fails = b.now.Add(credentials.Fresh), errors.New("no answer")
	if _, err := b.own.Token(t.Context(), token); err == nil || errors.Is(err, credentials.ErrUnknown) {
		t.Errorf("a store that does not answer: %v", err)
	}
	b.fails = nil
	if _, err := b.own.Token(t.Context(), token); err != nil {
		t.Errorf("after that: %v", err)
	}
}
