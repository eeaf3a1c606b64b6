package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// callTime limits one request. Nomad's servers wait up to 5 seconds for their leader.
	callTime = 15 * time.Second
	// maxAnswer limits the size of an answer, and maxRefusal that of an error.
	maxAnswer  = 32 << 20
	maxRefusal = 4 << 10
)

// client sends requests to a Nomad agent. Nomad's own client has no versions, and would bring
// two modules for four requests.
// https://developer.hashicorp.com/nomad/api-docs
type client struct {
	config.Nomad
	base string
	http *http.Client
}

func newClient(cfg config.Nomad) (*client, error) {
	transport, err := config.Transport{DialTimeout: callTime, TLSHandshakeTimeout: callTime, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4}.HTTP(cfg.TLS)
	if err != nil {
		return nil, fmt.Errorf("use nomad.tls: %w", err)
	}
	c := &client{Nomad: cfg, base: cfg.Address, http: &http.Client{Transport: transport}}
	if path, ok := strings.CutPrefix(cfg.Address, "unix://"); ok {
		c.base, transport.Proxy = "http://nomad", nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: callTime}).DialContext(ctx, "unix", path)
		}
	}
	return c, nil
}

// refusal is an answer that is an error.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string {
	if r.text == "" {
		return "status " + strconv.Itoa(r.status)
	}
	return r.text
}

// call sends a request and decodes its answer into out. It returns the index of the answer, with
// which a query can wait for the next one.
func (c *client) call(ctx context.Context, method, path string, query url.Values, in, out any) (index string, err error) {
	for name, value := range map[string]string{"namespace": c.Namespace, "region": c.Region} {
		if value != "" {
			query.Set(name, value)
		}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/v1/"+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if in == nil {
		req.Body, req.ContentLength = nil, 0
	}
	token, err := c.token()
	if err != nil {
		return "", err
	}
	if token != "" {
		req.Header.Set("X-Nomad-Token", token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what was read says enough
		return "", &refusal{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return "", fmt.Errorf("the answer of %s is not what Nomad answers: %w", c.Address, err)
	}
	return resp.Header.Get("X-Nomad-Index"), nil
}

// token returns the token for a request. Its file may have changed: Nomad renews the tokens of its
// workloads.
func (c *client) token() (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fault.As(fault.Person, fmt.Errorf("read nomad.token_file: %w", err))
	}
	return strings.TrimSpace(string(text)), nil
}

const adviceLater = "the next tick tries again"

var adviceRight = "give the token a policy with the capabilities list-jobs, read-job and dispatch-job in the namespace (" + docs.Page("nomad.md") + " has it)"

// rules classify what Nomad says, by a part of the text.
var rules = []struct {
	words, advice string
}{
	{"job registration, dispatch, and scale are disabled", "somebody has disabled them in Nomad's scheduler configuration: allow them there"},
	{"Permission denied", adviceRight},
	{"ACL token", "set nomad.token, nomad.token_file or NOMAD_TOKEN to a token that Nomad has"},
	{"parameterized job not found", "register the job, as in examples/nomad/runner.nomad.hcl, or correct nomad.job, nomad.namespace and nomad.region"},
	{"is not a parameterized job", "add a parameterized block to the job, as in examples/nomad/runner.nomad.hcl"},
	{"is stopped", "start the job again with nomad job run"},
	{"unpermitted metadata keys", `add meta_required = ["launch"] to the parameterized block of the job, as in examples/nomad/runner.nomad.hcl`},
	{"did not provide required meta keys", `the parameterized block of the job must require no other meta than "launch"`},
	{"Payload is not provided but required", `remove payload = "required" from the parameterized block of the job`},
	{"No path to region", "correct nomad.region or NOMAD_REGION"},
}

// classify returns the error of a request with its kind: transient if Nomad cannot be reached or
// has no leader, a person if a right is missing, or the configuration or the job is wrong.
func (c *client) classify(act string, err error) error {
	if errors.Is(err, context.Canceled) || fault.NeedsPerson(err) {
		return fmt.Errorf("%s: %w", act, err)
	}
	if refused := new(refusal); errors.As(err, &refused) {
		for _, r := range rules {
			if strings.Contains(refused.text, r.words) {
				return fault.As(fault.Person, fmt.Errorf("%s: Nomad answers %q: %s", act, refused.text, r.advice))
			}
		}
		if refused.status/100 == 4 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout {
			return fault.As(fault.Person, fmt.Errorf("%s: Nomad answers %d, %q: check the nomad block", act, refused.status, refused.text))
		}
		return fault.As(fault.Transient, fmt.Errorf("%s: Nomad answers %d, %q; %s", act, refused.status, refused.text, adviceLater))
	}
	advice := adviceLater
	if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" {
		advice = "check that a Nomad agent runs there; " + adviceLater
	}
	if u := new(url.Error); errors.As(err, &u) {
		err = fmt.Errorf("no answer from %s: %w", c.Address, u.Err)
	}
	return fault.As(fault.Transient, fmt.Errorf("%s: %w; %s", act, err, advice))
}
