package instance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// tokenAge is how long a token from a template is used before it is looked up again. A
	// token that was replaced is used after this time.
	tokenAge = time.Minute
	// failureAge is how long a look-up that failed is not repeated.
	failureAge = time.Second
	// hintKeyTime limits a look-up of the key of notifications.
	hintKeyTime = 10 * time.Second
)

// tokens looks up tokens, which may be templates. Each poll needs one, and anybody can send a
// notification, so each result is kept for a while.
type tokens struct {
	look func(ctx context.Context, cfg *config.Config, key, text string) (string, error)
	now  func() time.Time

	mu   sync.Mutex
	kept map[string]keptToken // by the text in the configuration
}

type keptToken struct {
	text string
	err  error
	at   time.Time
}

// token returns the token that the configuration has under a key: the text itself, or the value of
// its template. It is safe for concurrent use.
func (t *tokens) token(ctx context.Context, cfg *config.Config, key, text string) (string, error) {
	if !config.IsTemplate(text) {
		return text, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.kept[text]; ok && k.fresh(t.now()) {
		return k.text, k.err
	}
	value, err := t.look(ctx, cfg, key, text)
	if errors.Is(ctx.Err(), context.Canceled) { // says nothing about the next look-up
		return value, err
	}
	t.kept[text] = keptToken{value, err, t.now()}
	return value, err
}

func (k keptToken) fresh(now time.Time) bool {
	age := now.Sub(k.at).Abs()
	return age < tokenAge && (k.err == nil || age < failureAge)
}

// signed is a driver block whose system sends signed notifications.
type signed interface {
	SignedWith() notify.Text // the key of the signature
}

// hintKey returns what looks up the key of notifications.
func (i *Instance) hintKey() func(context.Context) (string, error) {
	tokens := &tokens{look: i.values.Text, now: time.Now, kept: map[string]keptToken{}}
	return func(ctx context.Context) (string, error) {
		cfg := i.base.Load()
		driver, ok := cfg.Driver().(signed)
		if !ok {
			return "", nil
		}
		// The sender of a notification cannot end the look-up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hintKeyTime)
		defer cancel()
		written := driver.SignedWith()
		key, err := tokens.token(ctx, cfg, written.Key, written.Text)
		return strings.TrimSpace(key), err // the driver trims it, too, when it sets up the notification
	}
}
