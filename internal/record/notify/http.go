package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// client posts events. It does not follow redirects: they would take a signed
// event, or a token in a header, to an address that nobody configured.
var client = &http.Client{
	Transport:     http.DefaultTransport.(*http.Transport).Clone(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// checkURL checks a URL that is no template. Its text may be secret, so no error
// shows it.
func checkURL(r *block.Report, text *block.String, parent block.Origin) {
	switch {
	case text.V == "":
		r.Missing(parent.Key("url"), "the notify block has no url", "the address of the endpoint")
	case !strings.Contains(text.V, "{{") && !isEndpoint(text.V):
		r.Fail(text.Origin, "the url is not one with a scheme and a host", `such as "https://example.com/events"`)
	}
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// post sends a request. 2xx is success.
func post(ctx context.Context, address string, header http.Header, body []byte) error {
	if !isEndpoint(address) {
		return &outbox.DownError{Err: person(errors.New("the url is not one with a scheme and a host, after its template was evaluated"))}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return &outbox.DownError{Err: person(errors.New("no request can be made of the url"))}
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "terrapulse")
	resp, err := exchange(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // for people
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return refusal(resp, answer)
}

// exchange sends a request. No error shows its URL.
func exchange(ctx context.Context, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if err == nil {
		return resp, nil
	}
	var withURL *url.Error
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &withURL):
		err = withURL.Err
	}
	return nil, &outbox.DownError{Err: err}
}

// refusal explains a status that is no success.
func refusal(resp *http.Response, answer []byte) error {
	text := "the endpoint answered " + strings.TrimSpace(strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode))
	if said := printable(string(answer), 300); said != "" {
		text += ": " + said
	}
	err := errors.New(text)
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code >= 500, code == http.StatusRequestTimeout:
		return &outbox.DownError{Err: err, After: delay.RetryAfter(resp.Header.Get("Retry-After"), time.Now())}
	case code == http.StatusGone:
		err = fmt.Errorf("%w; it wants no more events: remove the notify block, or set another url", err)
	case code/100 == 3:
		err = fmt.Errorf("%w; redirects are not followed: set url to the address where the endpoint is", err)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		err = fmt.Errorf("%w; check the secret, the headers and the url", err)
	case code == http.StatusNotFound:
		err = fmt.Errorf("%w; check the url", err)
	default: // it does not take this event
		return person(err)
	}
	return &outbox.DownError{Err: person(err)}
}

// printable is a text of another system on one line, shortened.
func printable(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
