package instance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestTokens_ResultsAreKeptForAWhile(t *testing.T) {
	now, looked := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), 0
	var fails error
	tk := &tokens{kept: map[string]keptToken{}, now: func() time.Time { return now }, look: func(context.Context, *config.Config, string, string) (string, error) {
		looked++
		return fmt.Sprint("token ", looked), fails
	}}
	const template = `{{ env "TEAM_TOKEN" }}`
	want := func(what, written, text string, times int) {
		t.Helper()
		got, err := tk.token(t.Context(), &config.Config{}, "driver.terraform-cloud", written)
		if err != nil || got != text || looked != times {
			t.Errorf("%s: %q after %d times, want %q after %d: %v", what, got, looked, text, times, err)
		}
	}
	want("a plain token", "plain", "plain", 0)
	want("the first poll", template, "token 1", 1)
	now = now.Add(tokenAge - time.Second)
	want("a later one", template, "token 1", 1)
	want("another template", template+"!", "token 2", 2)
	now = now.Add(time.Second)
	want("when it may have been replaced", template, "token 3", 3)
	now = now.Add(-time.Hour)
	want("when the clock was wrong", template, "token 4", 4)

	now, fails = now.Add(tokenAge), errors.New("Vault is sealed")
	failed := func(ctx context.Context, what string, times int) {
		t.Helper()
		if text, err := tk.token(ctx, &config.Config{}, "driver.terraform-cloud", template); err == nil || looked != times {
			t.Errorf("%s: %q after %d times, want an error after %d", what, text, looked, times)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	failed(cancelled, "a cancelled look-up", 5)
	failed(t.Context(), "a failed look-up", 6)
	failed(t.Context(), "at once after a failure", 6)
	fails, now = nil, now.Add(failureAge)
	want("later", template, "token 7", 7)
}
