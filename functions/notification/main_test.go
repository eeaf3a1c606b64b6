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
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/notification"
)

func sign(key, body string) string {
	mac := hmac.New(sha512.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestHandle_OnlyASignedNotificationStartsATick(t *testing.T) {
	const body = `{"payload_version":1,"run_id":"run-1"}`
	for name, tt := range map[string]struct {
		change func(*events.LambdaFunctionURLRequest, *handler)
		status int
		ticks  int
	}{
		"signed": {func(*events.LambdaFunctionURLRequest, *handler) {}, 202, 1},
		"signed, in base64": {func(r *events.LambdaFunctionURLRequest, _ *handler) {
			r.Body, r.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte(body)), true
		}, 202, 1},
		"not signed": {func(r *events.LambdaFunctionURLRequest, h *handler) {
			r.Headers = nil
			h.key = func(context.Context) (string, error) { t.Error("the key is read"); return "key", nil }
		}, 401, 0},
		"signed with another key": {func(r *events.LambdaFunctionURLRequest, _ *handler) {
			r.Headers[strings.ToLower(notification.Signature)] = sign("other", body)
		}, 401, 0},
		"changed": {func(r *events.LambdaFunctionURLRequest, _ *handler) { r.Body += " " }, 401, 0},
		"a read":  {func(r *events.LambdaFunctionURLRequest, _ *handler) { r.RequestContext.HTTP.Method = "GET" }, 405, 0},
		"too large": {func(r *events.LambdaFunctionURLRequest, _ *handler) {
			r.Body = strings.Repeat("x", 2*notification.MaxBody+1)
		}, 413, 0},
		"the key cannot be read": {func(_ *events.LambdaFunctionURLRequest, h *handler) {
			h.key = func(context.Context) (string, error) { return "", errors.New("throttled") }
		}, 503, 0},
		"the function cannot be invoked": {func(_ *events.LambdaFunctionURLRequest, h *handler) {
			h.tick = func(context.Context) error { return errors.New("throttled") }
		}, 503, 0},
	} {
		ticks := 0
		h := &handler{log: slog.New(slog.DiscardHandler),
			key:  func(context.Context) (string, error) { return "key", nil },
			tick: func(context.Context) error { ticks++; return nil }}
		r := events.LambdaFunctionURLRequest{Body: body, Headers: map[string]string{strings.ToLower(notification.Signature): sign("key", body)}}
		r.RequestContext.HTTP.Method = "POST"
		tt.change(&r, h)
		answer, err := h.handle(t.Context(), r)
		if err != nil || answer.StatusCode != tt.status || ticks != tt.ticks {
			t.Errorf("%s: status %d, %d ticks (%v)", name, answer.StatusCode, ticks, err)
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

func TestRequest_IsOneForATickAfterANotification(t *testing.T) {
	req, err := invoke.Parse([]byte(request))
	if err != nil || req.Mode != invoke.Reconcile || !req.Notified {
		t.Errorf("%+v, %v", req, err)
	}
}
