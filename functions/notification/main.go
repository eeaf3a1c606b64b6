// Command notification is the function behind the public URL for HCP Terraform's notifications. It checks
// their signature and invokes functions/reconcile for one tick. It does nothing else, whatever a
// notification says.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/aws/lambdahttp"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/notification"
)

func main() {
	h, err := newHandler(context.Background(), os.Environ(), os.Stdout)
	if err != nil {
		logging.JSON(os.Stdout, slog.LevelInfo).Error("the function is not configured correctly", "error", err)
		os.Exit(1)
	}
	lambda.Start(lambdahttp.Handler{Handler: h})
}

// handler answers notifications.
type handler struct {
	key  func(ctx context.Context) (string, error) // with which notifications are signed
	tick func(ctx context.Context) error           // starts a tick, and does not wait for it
	log  *slog.Logger
}

// newHandler builds the handler, once per process.
func newHandler(ctx context.Context, environ []string, out io.Writer) (*handler, error) {
	settings, err := settings.Read[settings.Notification](environ)
	if err != nil {
		return nil, err
	}
	cfg, err := awsenv.Config(ctx)
	if err != nil {
		return nil, err
	}
	source := secrets.New(cfg)
	return &handler{
		key:  func(ctx context.Context) (string, error) { return source.Get(ctx, settings.KeyARN) },
		tick: function.Function{Client: awslambda.NewFromConfig(cfg), Name: settings.ReconcileFunction}.Notified,
		log:  logging.JSON(out, slog.LevelInfo),
	}, nil
}

// ServeHTTP answers a request to the function URL.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, text := h.answer(r)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // it cannot fail: the answer is kept in memory
}

// answer starts a tick after a signed notification. Requests that are not signed cost as little as
// possible: anybody can send them.
func (h *handler) answer(r *http.Request) (status int, text string) {
	signature := r.Header.Get(notification.Signature)
	switch {
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "send a notification of HCP Terraform"
	case signature == "":
		return http.StatusUnauthorized, "the notification is not signed: set its token in HCP Terraform"
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, notification.MaxBody+1))
	switch {
	case err != nil:
		return http.StatusBadRequest, "the body is not valid base64"
	case len(body) > notification.MaxBody:
		return http.StatusRequestEntityTooLarge, "the notification is too large"
	}
	key, err := h.key(r.Context())
	if err != nil {
		h.log.Error("a notification cannot be checked", "error", err)
		return http.StatusServiceUnavailable, "the notification cannot be checked now"
	}
	if !notification.Signed(key, signature, body) {
		h.log.Warn("a notification was refused: its signature is wrong", "from", r.RemoteAddr)
		return http.StatusUnauthorized, "the signature is wrong: compare the token of the notification with the stack's parameter HcpNotificationTokenArn"
	}
	if err := h.tick(r.Context()); err != nil {
		h.log.Error("cannot invoke the reconcile function: the next scheduled tick polls HCP Terraform", "error", err)
		return http.StatusServiceUnavailable, "a tick cannot be started now"
	}
	return http.StatusAccepted, "a tick follows"
}
