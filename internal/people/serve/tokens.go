package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// How many wrong tokens are logged: some at once, and then one per wrongEvery. Requests are not limited by
// them: a right token is always let in, so that a limit would slow nobody down who guesses.
const (
	wrongAtOnce = 20
	wrongEvery  = time.Second
)

// Token is a bearer token. The zero value is none.
type Token struct {
	Key   string // its configuration key, for messages
	Value string
	File  string // file with the token, read for each request instead of Value
}

// tokens are those that the configuration has.
type tokens struct {
	log *slog.Logger
	now func() time.Time
	act string   // key of the token that may act
	all []*token // the configured tokens

	logged *rate.Limiter // of wrong tokens

	mu    sync.Mutex
	ended map[string]time.Time // sessions that were signed out, until they would have expired
}

// token is a configured token.
type token struct {
	Token
	acts  bool              // it may do everything; otherwise it may view everything
	sum   [sha256.Size]byte // of the last valid value
	wrong string            // the last reported error of the file
}

// newTokens reads the tokens for the first time.
func newTokens(act, read Token, log *slog.Logger) (*tokens, error) {
	t := &tokens{log: log, now: time.Now, act: act.Key, logged: rate.NewLimiter(rate.Every(wrongEvery), wrongAtOnce), ended: map[string]time.Time{}}
	for acts, given := range map[bool]Token{true: act, false: read} {
		if given == (Token{}) {
			continue
		}
		one := &token{Token: given, acts: acts}
		if err := one.refresh(); err != nil {
			return nil, err
		}
		t.all = append(t.all, one)
	}
	if len(t.all) == 2 && t.all[0].sum == t.all[1].sum {
		return nil, fmt.Errorf("%s and %s are the same token: readers could change things", act.Key, read.Key)
	}
	return t, nil
}

// Read returns the token, also from its file.
func (t Token) Read() (string, error) {
	if t.File == "" {
		return t.Value, nil
	}
	text, err := os.ReadFile(t.File)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", t.Key, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// refresh uses the token's current value if it is valid.
func (t *token) refresh() error {
	value, err := t.Read()
	if err != nil {
		return err
	}
	if len(value) < config.MinToken {
		return fmt.Errorf("use %s: the token has %d characters, but needs at least %d: create one with `openssl rand -hex 32`", t.Key, len(value), config.MinToken)
	}
	t.sum = sha256.Sum256([]byte(value))
	return nil
}

// current reads the token again if it is in a file.
func (t *token) current(log *slog.Logger) {
	if t.File == "" {
		return
	}
	err := t.refresh()
	switch {
	case err == nil:
		t.wrong = ""
	case err.Error() != t.wrong:
		t.wrong = err.Error()
		log.Error("cannot use the token file of the HTTP API: the previous token stays in use", "error", err)
	}
}

// matches compares in a time that does not depend on the token.
func (t *token) matches(sum [sha256.Size]byte, log *slog.Logger) bool {
	t.current(log)
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// What is wrong with the token of a request.
var (
	errNoToken    = errors.New("this API needs a token: send it in the header Authorization: Bearer TOKEN, or with -token or TERRAPULSE_TOKEN on the command line")
	errWrongToken = errors.New("the token in the header Authorization is not valid here")
)

// bearer returns the token in the header Authorization.
func bearer(header string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// caller is who sends the token. Roles have no effect on it.
func (t *token) caller() access.Caller {
	c := access.Caller{Identity: identity.OfToken(t.Key), Rights: roles.Everything()}
	if !t.acts {
		c.Rights, c.Remedy = roles.Viewing(), "use the one of api.token"
	}
	return c
}

// configured returns who sends a token that the configuration has; nil if it is none of those.
func (t *tokens) configured(value string) *access.Caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.Sum256([]byte(value))
	var known *token
	for _, one := range t.all {
		if one.matches(sum, t.log) && (known == nil || one.acts) {
			known = one
		}
	}
	if known == nil {
		return nil
	}
	return new(known.caller())
}

// wrong logs a request with a wrong token, and returns err.
func (t *tokens) wrong(r *http.Request, err error) error {
	if t.logged.AllowN(t.now(), 1) {
		t.log.Warn("a request to the HTTP API had a wrong token", "client", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "error", err)
	}
	return err
}
