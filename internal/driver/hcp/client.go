package hcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/clienttls"
)

const (
	// perSecond and burst leave a third of what HCP Terraform permits a user, 30 requests
	// a second, to other programs with the same user.
	perSecond = 20
	burst     = 10

	// requestTimeout is for one request, also of an upload.
	requestTimeout = time.Minute

	// patience is how long a request is repeated.
	patience = 30 * time.Second

	// maxAnswer bounds what is read of an answer: the plan of a large task has some MB.
	maxAnswer = 256 << 20

	mediaType = "application/vnd.api+json"
)

// Connection says how HCP Terraform is reached.
type Connection struct {
	Address string // with the scheme
	Token   string
	TLS     clienttls.Options
}

// Client calls HCP Terraform. It implements API. It is no go-tfe, with which the functions
// would become too large, and whose version 1 is deprecated.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
	limit *rate.Limiter
}

// NewClient returns a client. It makes no request.
func NewClient(c Connection) (*Client, error) {
	address, err := url.Parse(c.Address)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("the hostname %q of HCP Terraform is not an address: write https://HOST", c.Address)
	}
	tlsConfig, err := clienttls.Config(c.TLS)
	if err != nil {
		return nil, fmt.Errorf("connect to HCP Terraform: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = tlsConfig
	return &Client{
		base: address.JoinPath("api/v2/"), token: c.Token,
		http:  &http.Client{Transport: transport, Timeout: requestTimeout},
		limit: rate.NewLimiter(perSecond, burst),
	}, nil
}

// Error is an answer that refuses a request. It matches one of the errors of the API.
type Error struct {
	Status int
	Detail string
	kind   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("HCP Terraform answered %d %s", e.Status, cmp.Or(e.Detail, http.StatusText(e.Status)))
}

// Is reports whether the error is of this kind.
func (e *Error) Is(kind error) bool { return e.kind == kind }

// refusal returns the error of an answer with this status.
func refusal(status int, body []byte) *Error {
	e := &Error{Status: status}
	switch status {
	case http.StatusNotFound:
		e.kind = ErrNotFound
	case http.StatusConflict:
		e.kind = ErrConflict
	case http.StatusUnprocessableEntity:
		e.kind = ErrTaken
	case http.StatusUnauthorized, http.StatusForbidden:
		e.kind = ErrDenied
	default:
		if status >= http.StatusInternalServerError {
			e.kind = ErrUnknown
		}
	}
	var answer struct {
		Errors []struct{ Title, Detail string } `json:"errors"`
	}
	if json.Unmarshal(body, &answer) == nil {
		var all []string
		for _, one := range answer.Errors {
			if text := cmp.Or(one.Detail, one.Title); text != "" {
				all = append(all, text)
			}
		}
		e.Detail = strings.Join(all, "; ")
	}
	return e
}

// request is one request.
type request struct {
	method, path string // below the API; or an address, whole or relative to the API's
	query        url.Values
	body         []byte
	bare         bool // signed by its address: without a token
	withToken    bool // a bare request that needs the token nevertheless
	// once is set if the request must not be repeated when its answer is lost.
	once bool
}

// polling is the key of a context whose requests are not repeated: the next poll repeats them.
type polling struct{}

func toPoll(ctx context.Context) context.Context { return context.WithValue(ctx, polling{}, true) }

// do sends a request, and again if HCP Terraform is busy or, unless once is set, if it
// fails, and returns the body of the answer.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 5*time.Second
	body, err := backoff.Retry(ctx, func() ([]byte, error) {
		body, err := c.send(ctx, r)
		var refused *Error
		var busy *backoff.RetryAfterError
		switch {
		case err == nil:
			return body, nil
		case ctx.Value(polling{}) != nil:
			return nil, backoff.Permanent(err)
		case errors.As(err, &busy):
			return nil, err
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			return nil, backoff.Permanent(err)
		case r.once || ctx.Err() != nil || untrusted(err):
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(patience))
	if err == nil {
		return body, nil
	}
	if permanent := (*backoff.PermanentError)(nil); errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	if busy := (*backoff.RetryAfterError)(nil); errors.As(err, &busy) {
		err = &Error{Status: http.StatusTooManyRequests, Detail: "too many requests, also of other programs with the same user", kind: ErrUnknown}
	}
	if untrusted(err) {
		return nil, fmt.Errorf("connect to HCP Terraform: %w: set tls.ca_cert of the driver if its certificate is from an authority of your own", err)
	}
	if refused := (*Error)(nil); !errors.As(err, &refused) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil, err
}

// untrusted reports whether the server's certificate was refused.
func untrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// send sends a request once. Its error is a *backoff.RetryAfterError if HCP Terraform is
// busy: then the request had no effect.
func (c *Client) send(ctx context.Context, r request) ([]byte, error) {
	if err := c.limit.Wait(ctx); err != nil {
		return nil, err
	}
	address, err := c.resolve(r.path)
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	if len(r.query) > 0 {
		address.RawQuery = r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, withoutAddress(err)
	}
	req.Header.Set("User-Agent", "terrapulse/"+buildinfo.Version)
	if r.bare {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	if r.withToken {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if !r.bare {
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Content-Type", mediaType)
		req.Header.Set("Accept", mediaType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, &backoff.RetryAfterError{Duration: retryAfter(resp.Header)}
	case err != nil:
		return nil, err
	case resp.StatusCode >= http.StatusMultipleChoices:
		return nil, refusal(resp.StatusCode, body)
	}
	return body, nil
}

// retryAfter returns when a refused request may be sent again.
func retryAfter(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After", "X-Ratelimit-Reset"} {
		if seconds, err := strconv.ParseFloat(h.Get(name), 64); err == nil && seconds > 0 && seconds < patience.Seconds() {
			return time.Duration(seconds * float64(time.Second))
		}
	}
	return time.Second
}

// withoutAddress returns an error without the address of the request: some are signed,
// and secret.
func withoutAddress(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	if dns := (*net.DNSError)(nil); errors.As(failed.Err, &dns) {
		return fmt.Errorf("look up %s: %s", dns.Name, dns.Err)
	}
	return failed.Err
}

// document is a document of JSON:API with one resource or several.
type document[T any] struct {
	Data     T          `json:"data"`
	Included []resource `json:"included,omitempty"`
	Meta     struct {
		Pagination struct {
			Next int `json:"next-page"`
		} `json:"pagination"`
	} `json:"meta,omitzero"`
}

// resource is a resource as it is read.
type resource struct {
	ID            string              `json:"id"`
	Type          string              `json:"type"`
	Attributes    json.RawMessage     `json:"attributes"`
	Relationships map[string]relation `json:"relationships"`
}

// relation names other resources.
type relation struct {
	Data json.RawMessage `json:"data"` // one or a list
}

// one returns the id of the only resource of a relation; "" if there is none.
func (r resource) one(relation string) string {
	id, _ := r.target(relation)
	return id
}

// target returns the id and the kind of the only resource of a relation; "" if there is none.
func (r resource) target(relation string) (id, kind string) {
	var target struct{ ID, Type string }
	_ = json.Unmarshal(r.Relationships[relation].Data, &target)
	return target.ID, target.Type
}

// decode decodes the attributes of a resource.
func decode[T any](r resource) (T, error) {
	var attributes T
	if err := json.Unmarshal(r.Attributes, &attributes); err != nil {
		return attributes, fmt.Errorf("read the answer of HCP Terraform: %s %s: %w", r.Type, r.ID, err)
	}
	return attributes, nil
}

// attributesOf returns the decoded attributes of an included resource; zero if it is not
// included.
func attributesOf[T any](included []resource, kind, id string) T {
	var none T
	for _, r := range included {
		if r.Type == kind && r.ID == id && id != "" {
			if found, err := decode[T](r); err == nil {
				return found
			}
		}
	}
	return none
}

// outgoing is a resource as it is written.
type outgoing struct {
	ID            string         `json:"id,omitempty"`
	Type          string         `json:"type"`
	Attributes    any            `json:"attributes,omitempty"`
	Relationships map[string]any `json:"relationships,omitempty"`
}

// to names another resource in a relation.
func to(kind, id string) map[string]any {
	return map[string]any{"data": map[string]string{"type": kind, "id": id}}
}

// call sends a request with a resource, or none, and returns the resource of the answer.
func call[T any](ctx context.Context, c *Client, r request, body *outgoing) (document[T], error) {
	var answer document[T]
	if body != nil {
		raw, err := json.Marshal(map[string]any{"data": body})
		if err != nil {
			return answer, err
		}
		r.body = raw
	}
	raw, err := c.do(ctx, r)
	if err != nil || len(raw) == 0 {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of HCP Terraform to %s %s: %w", r.method, r.path, err)
	}
	return answer, nil
}

// list reads all pages of a list, at most so many. If there are more, the answer says the next.
func list(ctx context.Context, c *Client, path string, query url.Values, pages int) (document[[]resource], error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("page[size]", "100")
	var all document[[]resource]
	for page := 1; page > 0 && pages > 0; pages-- {
		if page > 1 {
			query.Set("page[number]", strconv.Itoa(page))
		}
		one, err := call[[]resource](ctx, c, request{method: http.MethodGet, path: path, query: query}, nil)
		if err != nil {
			return all, err
		}
		all.Data, all.Included = append(all.Data, one.Data...), append(all.Included, one.Included...)
		page = one.Meta.Pagination.Next
		all.Meta = one.Meta
	}
	return all, nil
}
