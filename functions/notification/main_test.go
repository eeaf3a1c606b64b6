package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/notification"
)

func sign(key, body string) string {
	mac := hmac.New(sha512.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestServeHTTP_OnlyASignedNotificationStartsATick(t *testing.T) {
	const body = `{"payload_version":1,"run_id":"run-1"}`
	for name, tt := range map[string]struct {
		change func(*http.Request, *handler)
		status int
		ticks  int
	}{
		"signed": {func(*http.Request, *handler) {}, 202, 1},
		"not signed": {func(r *http.Request, h *handler) {
			r.Header = nil
			h.key = func(context.Context) (string, error) { t.Error("the key is read"); return "key", nil }
		}, 401, 0},
		"signed with another key": {func(r *http.Request, _ *handler) {
			r.Header.Set(notification.Signature, sign("other", body))
		}, 401, 0},
		"changed": {func(r *http.Request, _ *handler) { r.Body = io.NopCloser(strings.NewReader(body + " ")) }, 401, 0},
		"a read":  {func(r *http.Request, _ *handler) { r.Method = "GET" }, 405, 0},
		"not base64": {func(r *http.Request, _ *handler) {
			r.Body = io.NopCloser(base64.NewDecoder(base64.StdEncoding, strings.NewReader("-")))
		}, 400, 0},
		"too large": {func(r *http.Request, _ *handler) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", notification.MaxBody+1)))
		}, 413, 0},
		"the key cannot be read": {func(_ *http.Request, h *handler) {
			h.key = func(context.Context) (string, error) { return "", errors.New("throttled") }
		}, 503, 0},
		"the function cannot be invoked": {func(_ *http.Request, h *handler) {
			h.tick = func(context.Context) error { return errors.New("throttled") }
		}, 503, 0},
	} {
		ticks := 0
		h := &handler{log: slog.New(slog.DiscardHandler),
			key:  func(context.Context) (string, error) { return "key", nil },
			tick: func(context.Context) error { ticks++; return nil }}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set(notification.Signature, sign("key", body))
		tt.change(r, h)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || ticks != tt.ticks || !strings.HasSuffix(w.Body.String(), "\n") {
			t.Errorf("%s: status %d %q, %d ticks", name, w.Code, w.Body, ticks)
		}
	}
}

func TestNewHandler_WithTheEnvironmentOfTheTemplate(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	h, err := newHandler(t.Context(), []string{"TERRAPULSE_RECONCILE_FUNCTION=prod-reconcile", "TERRAPULSE_HCP_NOTIFICATION_TOKEN_ARN=arn:aws:secretsmanager:eu-west-1:111122223333:secret:k"}, io.Discard)
	if err != nil || h.tick == nil {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err = newHandler(t.Context(), nil, io.Discard); err == nil || !strings.Contains(err.Error(), "HcpNotificationTokenArn") {
		t.Errorf("said %v", err)
	}
}
