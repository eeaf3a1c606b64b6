package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// ErrNoLeader says that Consul's servers have elected no leader: its answers may be
// out of date. It is transient.
var ErrNoLeader = errors.New("the cluster has no leader; list its servers with `consul operator raft list-peers`")

// noAnswer says that a request has timed out, after this time.
type noAnswer time.Duration

func (n noAnswer) Error() string { return fmt.Sprintf("no answer within %s", time.Duration(n)) }

// kind is the kind of a readError. errors.Is compares a readError with its kind.
type kind int

const (
	unavailable kind = iota + 1
	forbidden
	badQuery // Consul does not understand it; a retry does not help
	peerLost // a peer of Consul does not answer, or nothing is known of it
)

func (k kind) Error() string {
	return [...]string{"", "unavailable", "forbidden", "bad query", "peer lost"}[k]
}

// What Consul says about itself or the token, in its words. errors.Is compares a
// readError with it.
var (
	//lint:ignore ST1005 Consul's words
	errNoCoordinates = errors.New("Coordinate support disabled")
	errNoACL         = errors.New("ACL support disabled")
	errUnknownToken  = errors.New("ACL not found")
)

// readError is one read of Consul that did not succeed.
type readError struct {
	what   string // such as: read service "web" from Consul at 127.0.0.1:8500
	kind   kind
	says   error // such as errNoACL; may be nil
	silent bool  // there was no answer at all
	cause  error
	advice string // may be empty
}

func (c *Client) failed(r request, k kind, cause error, advice string) *readError {
	return &readError{what: c.what(r), kind: k, cause: cause, advice: advice}
}

func (c *Client) what(r request) string {
	if r.inKV {
		return r.Act + " in Consul's KV store at " + c.address
	}
	return r.Act + " from Consul at " + c.address
}

func (e *readError) Error() string {
	text := e.what + ": " + e.cause.Error()
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *readError) Unwrap() error { return e.cause }

func (e *readError) Is(target error) bool {
	return target == e.kind || e.says != nil && target == e.says
}

// Fault returns the kind of the error: transient if Consul cannot be reached,
// answers too late or with an internal error, or has no leader.
func (e *readError) Fault() fault.Kind {
	if e.kind == unavailable || e.kind == peerLost {
		return fault.Transient
	}
	return fault.Person
}

// IsForbidden reports whether Consul's access control denies the request.
func IsForbidden(err error) bool { return errors.Is(err, forbidden) }

// IsUnavailable reports whether Consul cannot answer now, whatever is read: it cannot be reached,
// has no leader, or answers too late or with an internal error.
func IsUnavailable(err error) bool { return errors.Is(err, unavailable) }

// silent reports whether Consul gave no answer at all.
func silent(err error) bool {
	e, ok := errors.AsType[*readError](err)
	return ok && e.silent
}

// joined is one error for many, each cause once.
func joined(errs []error) error {
	seen := map[string]bool{}
	return errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		if err == nil {
			return true
		}
		cause := err.Error()
		if e, ok := errors.AsType[*readError](err); ok {
			cause = e.cause.Error()
		}
		known := seen[cause]
		seen[cause] = true
		return known
	})...)
}

// tooMany is the advice if Consul refuses a connection.
var tooMany = fmt.Sprintf("Consul lets this address have no more connections at a time: stop other clients, or raise "+
	"limits.http_max_conns_per_client in Consul's configuration (200 unless it is set there; Terrapulse takes %d, and Consul keeps "+
	"those of a process that has ended for up to five minutes, so that many starts add up)", maxConns)

// transportError classifies an error without an answer, or with one that was cut
// short or is not Consul's.
func (c *Client) transportError(ctx context.Context, r request, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which says nothing new
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", c.what(r), err)
	}
	e := c.failed(r, unavailable, err, "")
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || mismatch {
		e.cause, e.advice = fmt.Errorf("the answer is not one of Consul: %w", err), "check that consul.address leads to Consul's HTTP API"
		return e
	}
	e.silent = true
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		e.advice = "check that Consul runs there, and consul.address or CONSUL_HTTP_ADDR"
	}
	// The prefix of net/http for bytes that the server sent before the request.
	for early := err; early != nil; early = errors.Unwrap(early) {
		if !strings.HasPrefix(early.Error(), "readLoopPeekFailLocked: ") {
			continue
		}
		if e.cause = errors.Unwrap(early); e.cause == nil {
			// An answer: Consul sends status 429 as soon as it has the connection.
			// Otherwise the connection's end and its reason, such as a TLS alert.
			e.cause, e.advice = errors.New("it refuses the connection"), tooMany
		}
		break
	}
	if errors.Is(err, net.ErrClosed) {
		// net/http closed it while it wrote the request: it read such an answer, or that the server is gone.
		e.cause, e.advice = errors.New("the connection ended before the request was sent"), "if this repeats, "+tooMany
	}
	return e
}

// statusError classifies an answer that is not a success, by its text, too: Consul
// gives status 500 to many bad requests. It keeps the text in the form in which
// Consul's own client and CTS report it.
func (c *Client) statusError(r request, status int, body string) error {
	body = strings.TrimSpace(body)
	//lint:ignore ST1005 scripts look for the words of Consul's own client
	e := c.failed(r, unavailable, fmt.Errorf("Unexpected response code: %d (%s)", status, body), "")
	has := func(s string) bool { return strings.Contains(body, s) }
	for _, said := range []error{errNoCoordinates, errNoACL, errUnknownToken} {
		if has(said.Error()) {
			e.says = said
		}
	}
	switch {
	case status == 401 || status == 403 || has("Permission denied") || e.says == errUnknownToken:
		e.kind = forbidden
		e.advice = c.lacks(r.Needs)
		if e.says == errUnknownToken {
			e.advice = "Consul does not know the token (consul.token, CONSUL_HTTP_TOKEN): it is wrong, expired or deleted"
		}
	case has("No cluster leader"), has("leader unknown"):
		e.cause = fmt.Errorf("%w: %w", e.cause, ErrNoLeader)
	case has("No path to datacenter"):
		e.kind = badQuery
		e.advice = "check the datacenter's name, and that it is joined (`consul members -wan`)"
	case has("namespace not found"), has("partition not found"):
		e.kind = badQuery
		e.advice = "check the namespace and the partition: those of the task, CONSUL_NAMESPACE and CONSUL_PARTITION"
	case status == 404 && strings.HasPrefix(r.Path, "/api/"):
		e.kind = badQuery
		e.advice = "this Consul has no resources of this kind: check group, version and kind, and the version of Consul"
	case has("invalid config entry kind"):
		e.kind = badQuery
		e.advice = "this Consul has no config entries of this kind: check the spelling, and the version of Consul"
	case has("boolean expression"):
		e.kind = badQuery
		e.advice = "check the filter"
	case has("Enterprise feature"):
		e.kind = badQuery
		e.advice = "this Consul has no namespaces and partitions: remove them from the task, CONSUL_NAMESPACE and CONSUL_PARTITION"
	case status == 400 && body == "":
		e.kind = badQuery
		e.advice = "Consul refuses names with characters that cannot be printed: choose another name"
	case has("too many concurrent connections"):
		e.advice = tooMany
	case has("invalid key name"), status >= 400 && status < 500 && status != 408 && status != 429:
		e.kind = badQuery
	}
	return e
}
