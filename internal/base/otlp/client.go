package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

const (
	// tries is how often spans are sent at most, with pauses of about 1, 2 and 4 seconds. Meanwhile the
	// queue of the SDK takes 2,048 further spans.
	tries = 4

	// maxPause is the longest pause, also if the receiver asks for a longer one.
	maxPause = 10 * time.Second

	// quiet is how long nothing is logged about further failures.
	quiet = 10 * time.Minute
)

// firstPause is the first of the pauses; tests shorten it.
var firstPause = time.Second

// client sends spans to the receiver. The SDK calls it from one goroutine.
type client struct {
	settings
	http   *http.Client
	log    *slog.Logger
	pause  time.Duration
	logged time.Time // when a failure was logged last; zero if the latest request succeeded
	lost   int       // spans since
}

var _ sdk.SpanExporter = (*client)(nil)

func newClient(s settings, log *slog.Logger) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if s.tls != nil {
		transport.TLSClientConfig = s.tls
	}
	// A redirect would take the headers to an address that nobody configured.
	return &client{settings: s, log: log, pause: firstPause, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ExportSpans implements sdk.SpanExporter. It returns no error: it has logged it.
func (c *client) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.export(ctx, spans)
	switch now := time.Now(); {
	case err == nil:
		if !c.logged.IsZero() {
			c.log.Info("traces are exported again", "lost_spans", c.lost)
		}
		c.logged, c.lost = time.Time{}, 0
	default:
		c.lost += len(spans)
		if c.logged.IsZero() || now.Sub(c.logged).Abs() > quiet {
			c.logged = now
			c.log.Warn("spans are lost: the receiver of traces does not take them", "lost_spans", c.lost, "error", err)
		}
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (c *client) Shutdown(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

func (c *client) export(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = c.pause, maxPause, 2
	var last error
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		var after time.Duration
		switch after, last = c.post(ctx, body); {
		case last != nil && after < 0:
			return struct{}{}, backoff.Permanent(last)
		case last != nil && after > 0:
			return struct{}{}, &backoff.RetryAfterError{Duration: min(after, maxPause)}
		}
		return struct{}{}, last
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(tries))
	if err == nil {
		return nil
	}
	return last // says more than the end of the context
}

// encode returns the body of a request.
func (c *client) encode(spans []sdk.ReadOnlySpan) ([]byte, error) {
	body, err := proto.Marshal(request(spans))
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	if !c.gzip {
		return body, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(body)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress spans: %w", err)
	}
	return packed.Bytes(), nil
}

// post sends a request. After an error, the duration is the least pause before another attempt, or
// negative if there is no use in one.
func (c *client) post(ctx context.Context, body []byte) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, errors.New("no request can be made of the endpoint")
	}
	req.Header = c.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "terrapulse")
	if c.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var withURL *url.Error // which may hold a key
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 == 2 {
		return -1, rejected(answer, err)
	}
	err = fmt.Errorf("the receiver answered %s", resp.Status)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return delay.RetryAfter(resp.Header.Get("Retry-After"), time.Now()), err
	}
	return -1, err
}

// rejected returns an error if the receiver says that it has not taken all spans. An answer that cannot
// be read counts as success: the status says so.
func rejected(answer []byte, err error) error {
	var said collector.ExportTraceServiceResponse
	if err != nil || proto.Unmarshal(answer, &said) != nil {
		return nil
	}
	if n := said.GetPartialSuccess().GetRejectedSpans(); n > 0 {
		return fmt.Errorf("the receiver has rejected %d spans: %.200q", n, said.GetPartialSuccess().GetErrorMessage())
	}
	return nil
}
