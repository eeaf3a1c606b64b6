package api_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/notification"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestHint_SignedNotificationRequestsATickIfARunWaits(t *testing.T) {
	e := newEngine(t, files)
	status(t, e.serve().ask("POST", api.NotificationPath, "{}"), http.StatusUnauthorized)

	key, fails := "key", error(nil)
	e.options.HintKey = func(context.Context) (string, error) { return key, fails }
	e.serve()
	signature := func(key, body string) []string {
		mac := hmac.New(sha512.New, []byte(key))
		mac.Write([]byte(body))
		return []string{notification.Signature, hex.EncodeToString(mac.Sum(nil))}
	}
	requested := func() bool {
		select {
		case <-e.asked:
			return true
		default:
			return false
		}
	}
	const body = `{"payload_version": 1, "run_id": null}`
	waiting := func(remote int) {
		t.Helper()
		rec, err := state.ReadReconcile(t.Context(), e.store)
		if err != nil {
			t.Fatal(err)
		}
		rec.Data.Remote = remote
		if _, err := e.store.Apply(t.Context(), rec.Write(rec.Data)); err != nil {
			t.Fatal(err)
		}
	}
	waiting(0)
	status(t, e.ask("POST", api.NotificationPath, body, signature(key, body)...), http.StatusAccepted)
	if requested() {
		t.Error("a tick is requested although no remote run is waited for")
	}
	waiting(1)
	long := `{"text": "` + strings.Repeat("x", notification.MaxBody) + `"}`
	for name, answer := range map[string]struct {
		body   string
		header []string
		want   int
	}{
		"not signed":           {body, nil, http.StatusUnauthorized},
		"with another key":     {body, signature("other", body), http.StatusUnauthorized},
		"of another body":      {body, signature(key, "{}"), http.StatusUnauthorized},
		"with much in it":      {long, signature(key, long), http.StatusRequestEntityTooLarge},
		"with an invalid text": {body, []string{notification.Signature, "x"}, http.StatusUnauthorized},
	} {
		if got := e.ask("POST", api.NotificationPath, answer.body, answer.header...); got.status != answer.want {
			t.Errorf("a notification %s: %d %s", name, got.status, got.body)
		}
		if requested() {
			t.Errorf("a notification %s requests a tick", name)
		}
	}
	status(t, e.ask("POST", api.NotificationPath, body, signature(key, body)...), http.StatusAccepted)
	if rec, err := state.ReadReconcile(t.Context(), e.store); err != nil || rec.Data.Due.IsZero() || !requested() {
		t.Errorf("a signed notification requests no tick: %+v, %v", rec.Data, err)
	}
	fails = errors.New("Vault does not answer")
	status(t, e.ask("POST", api.NotificationPath, body, signature(key, body)...), http.StatusInternalServerError)
	key, fails = "", nil
	status(t, e.ask("POST", api.NotificationPath, body, signature("", body)...), http.StatusUnauthorized)
}
