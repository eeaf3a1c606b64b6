package notify

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

type webhookKeys struct {
	common
	URL     block.String `key:"url" secret:"query" required:"true" doc:"address of the endpoint; a template is possible"`
	Secret  block.String `key:"secret" secret:"value" unset:"requests are not signed" doc:"key of the signature: 'whsec_' and base64; use a template"`
	Headers block.Map    `key:"headers" secret:"value" doc:"further headers of the requests; templates are possible"`
}

// webhook sends events as https://www.standardwebhooks.com says.
type webhook struct {
	URL, Secret string
	Headers     map[string]string
}

const secretHint = "'whsec_' and base64, as from: echo whsec_$(openssl rand -base64 32)"

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are set here.
var ownHeaders = []string{"webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "content-length", "host", "user-agent", "traceparent"}

func (*webhookKeys) about() about {
	return about{Templates: []string{"url", "secret", "headers.*"},
		Secrets: []secret{{"secret", `\bwhsec_[A-Za-z0-9+/=]{16,}`}, {"headers.authorization", ""}}}
}

func (k *webhookKeys) target(r *block.Report) Target {
	checkURL(r, &k.URL, k.Origin)
	if k.Secret.Set && !strings.Contains(k.Secret.V, "{{") {
		if _, err := signer(k.Secret.V); err != nil {
			r.Fail(k.Secret.Origin, err.Error(), secretHint)
		}
	}
	for name, value := range k.Headers.V {
		switch {
		case !headerName.MatchString(name):
			r.Fail(k.Headers.Entry(name), "not the name of a header: "+block.Quoted(name), "such as Authorization")
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			r.Fail(k.Headers.Entry(name), "the header "+name+" is set by Terrapulse", "remove it")
		case strings.ContainsAny(value, "\r\n\x00"):
			r.Fail(k.Headers.Entry(name), "the value of a header is one line", "")
		}
	}
	return &webhook{k.URL.V, k.Secret.V, k.Headers.V}
}

// signer returns what signs with a secret.
func signer(secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 16 {
		return nil, errors.New("the secret is not the base64 of 16 bytes or more")
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// Texts implements Target.
func (w *webhook) Texts() map[string]string {
	texts := map[string]string{"url": w.URL}
	if w.Secret != "" {
		texts["secret"] = w.Secret
	}
	for name, value := range w.Headers {
		texts["headers."+name] = value
	}
	return texts
}

func (w *webhook) send(ctx context.Context, e outbox.Event, texts map[string]string) error {
	body, err := encode(e)
	if err != nil {
		return fmt.Errorf("encode the event: %w", err)
	}
	header, now := http.Header{}, time.Now()
	for key, value := range texts {
		if name, ok := strings.CutPrefix(key, "headers."); ok {
			if strings.ContainsAny(value, "\r\n\x00") {
				return &outbox.DownError{Err: person(fmt.Errorf("the value of the header %s has more than one line, after its template was evaluated", name))}
			}
			header.Set(name, value)
		}
	}
	header.Set(standardwebhooks.HeaderWebhookID, e.ID)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if e.Trace != "" {
		header.Set(tracing.Header, e.Trace)
	}
	if w.Secret != "" {
		by, err := signer(texts["secret"])
		if err != nil {
			return &outbox.DownError{Err: person(err)}
		}
		signature, err := by.Sign(e.ID, now, body)
		if err != nil {
			return fmt.Errorf("sign the event: %w", err)
		}
		header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return post(ctx, texts["url"], header, body)
}
