// Command notification is the function behind the public URL for HCP Terraform's notifications. It checks
// their signature and invokes functions/reconcile for one tick. It does nothing else, whatever a
// notification says.
package main

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

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
	lambda.Start(h.handle)
}

// request is the invoke.Request for a tick after a notification.
const request = `{"mode":"reconcile","notified":true}`

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
	source, client := secrets.New(cfg), awslambda.NewFromConfig(cfg)
	return &handler{
		key: func(ctx context.Context) (string, error) { return source.Get(ctx, settings.KeyARN) },
		tick: func(ctx context.Context) error {
			_, err := client.Invoke(ctx, &awslambda.InvokeInput{FunctionName: &settings.ReconcileFunction, InvocationType: types.InvocationTypeEvent, Payload: []byte(request)})
			return err
		},
		log: logging.JSON(out, settings.LogLevel),
	}, nil
}

// handle answers a request to the function URL. Requests that are not signed cost as little as
// possible: anybody can send them.
func (h *handler) handle(ctx context.Context, r events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
	signature := r.Headers[strings.ToLower(notification.Signature)]
	switch {
	case r.RequestContext.HTTP.Method != http.MethodPost:
		return answer(http.StatusMethodNotAllowed, "send a notification of HCP Terraform")
	case len(r.Body) > 2*notification.MaxBody: // in base64
		return answer(http.StatusRequestEntityTooLarge, "the notification is too large")
	case signature == "":
		return answer(http.StatusUnauthorized, "the notification is not signed: set its token in HCP Terraform")
	}
	body := []byte(r.Body)
	if r.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(r.Body); err != nil {
			return answer(http.StatusBadRequest, "the body is not valid base64")
		}
	}
	key, err := h.key(ctx)
	if err != nil {
		h.log.Error("a notification cannot be checked", "error", err)
		return answer(http.StatusServiceUnavailable, "the notification cannot be checked now")
	}
	if !notification.Signed(key, signature, body) {
		h.log.Warn("a notification was refused: its signature is wrong", "from", r.RequestContext.HTTP.SourceIP)
		return answer(http.StatusUnauthorized, "the signature is wrong: compare the token of the notification with the stack's parameter HcpNotificationTokenArn")
	}
	if err := h.tick(ctx); err != nil {
		h.log.Error("cannot invoke the reconcile function: the next scheduled tick polls HCP Terraform", "error", err)
		return answer(http.StatusServiceUnavailable, "a tick cannot be started now")
	}
	return answer(http.StatusAccepted, "a tick follows")
}

func answer(status int, text string) (events.LambdaFunctionURLResponse, error) {
	return events.LambdaFunctionURLResponse{StatusCode: status, Headers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}, Body: text + "\n"}, nil
}
