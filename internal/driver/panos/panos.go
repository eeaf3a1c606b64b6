// Package panos commits the changes of a task's apply on a PAN-OS firewall or Panorama. Terraform's
// panos provider leaves its changes in the candidate configuration; with auto_commit they take
// effect.
package panos

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/PaloAltoNetworks/pango"
	"github.com/PaloAltoNetworks/pango/commit"
	panoserr "github.com/PaloAltoNetworks/pango/errors"
	"github.com/PaloAltoNetworks/pango/util"
	"github.com/cenkalti/backoff/v5"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// ProviderName is the provider that supports auto_commit.
const ProviderName = "panos"

const (
	// The first attempt and four more, after about these waits.
	attempts                = 5
	firstWait, longestWait  = time.Second, 10 * time.Second
	firstPoll, longestPause = 200 * time.Millisecond, 3 * time.Second // polls of a job

	// commitLimit limits a commit, which takes minutes on a large Panorama.
	commitLimit = 20 * time.Minute
)

// Committer commits to one firewall or Panorama.
type Committer struct {
	provider string // id
	client   pango.Client
	redact   func(string) string
	wait     time.Duration // before the second attempt
}

// New returns the Committer for a provider block whose templates have been evaluated, or nil if it
// is not a panos provider with auto_commit. Missing arguments are taken from its task_env or from
// the process environment, in the provider's own variables. A json_config_file is relative to dir. Redact
// removes secrets from the output of Commit.
func New(p config.Provider, dir string, redact func(string) string) (*Committer, error) {
	if p.Name != ProviderName || !p.AutoCommit {
		return nil, nil
	}
	c := &Committer{provider: p.ID(), redact: redact, wait: firstWait}
	if file := textOf(p.Body, "json_config_file"); file != "" {
		if err := c.read(file, dir); err != nil {
			return nil, err
		}
	}
	var errs []error
	var port, timeout uint16
	for _, a := range []struct {
		name, variable string
		to             any
		form           string // of values that are not strings
	}{
		{"hostname", "PANOS_HOSTNAME", &c.client.Hostname, ""},
		{"username", "PANOS_USERNAME", &c.client.Username, ""},
		{"password", "PANOS_PASSWORD", &c.client.Password, ""},
		{"api_key", "PANOS_API_KEY", &c.client.ApiKey, ""},
		{"protocol", "PANOS_PROTOCOL", &c.client.Protocol, ""},
		{"target", "PANOS_TARGET", &c.client.Target, ""},
		{"port", "PANOS_PORT", &port, "a number from 1 to 65535"},
		{"timeout", "PANOS_TIMEOUT", &timeout, "a number of seconds"},
		{"verify_certificate", "PANOS_VERIFY_CERTIFICATE", &c.client.VerifyCertificate, "true or false"},
		{"additional_headers", "PANOS_HEADERS", &c.client.Headers, "a map of strings, the variable in JSON"},
	} {
		text := cmp.Or(textOf(p.Body, a.name), variable(p, a.variable))
		if text != "" && set(a.to, text) != nil {
			errs = append(errs, c.wrong(fmt.Sprintf("%s (%s) must be %s", a.name, a.variable, a.form)))
		}
	}
	c.client.Port, c.client.Timeout = cmp.Or(uint(port), c.client.Port), cmp.Or(int(timeout), c.client.Timeout)
	switch {
	case c.client.Hostname == "":
		errs = append(errs, c.wrong("hostname is needed for auto_commit: set it in the provider block, or set PANOS_HOSTNAME"))
	case c.client.Username == "":
		errs = append(errs, c.wrong("username is needed for auto_commit, which commits the changes of that one administrator: "+
			"set it in the provider block, or set PANOS_USERNAME; it must be the one whose password or api_key the provider uses"))
	case c.client.Password == "" && c.client.ApiKey == "":
		errs = append(errs, c.wrong("password or api_key is needed for auto_commit: set one in the provider block, or set PANOS_PASSWORD or PANOS_API_KEY"))
	}
	return c, errors.Join(errs...)
}

// set writes a value that is not empty. Its error may contain the value, which may be secret.
func set(to any, text string) (err error) {
	switch to := to.(type) {
	case *string:
		*to = text
	case *bool:
		*to, err = strconv.ParseBool(text)
	default:
		err = json.Unmarshal([]byte(text), to)
	}
	return err
}

func (c *Committer) wrong(problem string) error {
	return fmt.Errorf("provider %q: %s", c.provider, problem)
}

// read reads the file of json_config_file.
func (c *Committer) read(file, dir string) error {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("provider %q: read json_config_file: %w", c.provider, err)
	}
	if json.Unmarshal(text, &c.client) != nil { // the error may contain a secret
		return c.wrong("json_config_file " + file + " is not what the panos provider reads: an object in JSON with hostname, username and so on")
	}
	return nil
}

// textOf returns an argument as text, and a map or block in JSON; "" if it is missing or empty.
func textOf(body config.Body, name string) string {
	v := body.Attributes[name]
	for _, block := range body.Blocks[name] {
		v = cty.ObjectVal(block.Attributes)
	}
	if v == cty.NilVal || v.IsNull() || !v.IsWhollyKnown() || v.CanIterateElements() && v.LengthInt() == 0 {
		return ""
	}
	want := cty.String
	if v.Type().IsObjectType() {
		want = cty.Map(cty.String)
	}
	v, err := convert.Convert(v, want)
	if err != nil {
		return ""
	}
	if want == cty.String {
		return v.AsString()
	}
	text, _ := ctyjson.Marshal(v, want) // known strings
	return string(text)
}

func variable(p config.Provider, name string) string {
	if v, ok := p.Env[name]; ok {
		return v
	}
	return os.Getenv(name)
}

// Commit commits the changes of the administrator, if there are any. It writes what it did to out.
func (c *Committer) Commit(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commitLimit, fmt.Errorf("it has taken longer than %s", commitLimit))
	defer cancel()
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = c.wait, max(c.wait, longestWait)
	var last error
	job, err := backoff.Retry(ctx, func() (uint, error) {
		job, err := c.attempt(ctx)
		if err == nil {
			return job, nil
		}
		again := !refused(err)
		err = errors.New(c.redact(err.Error()))
		last = err
		if !again {
			err = backoff.Permanent(err)
		}
		return job, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(attempts), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			fmt.Fprintf(out, "The commit to PAN-OS failed (%v). It is tried again in %s.\n", err, wait.Round(time.Second))
		}))
	switch {
	case err == nil && job == 0:
		fmt.Fprintln(out, "There is nothing to be committed to PAN-OS.")
		return nil
	case err == nil:
		fmt.Fprintf(out, "The changes are committed to PAN-OS (job %d).\n", job)
		return nil
	case ctx.Err() != nil:
		last = context.Cause(ctx)
	}
	return fmt.Errorf("what was applied is not committed to PAN-OS (provider %q) and has no effect yet; the next run of the task commits it: %w", c.provider, last)
}

// refused reports whether another attempt would only lock the account.
func refused(err error) bool {
	var answer panoserr.Panos
	return errors.As(err, &answer) && (answer.Code == 16 || answer.Code == http.StatusForbidden || answer.Code == http.StatusUnauthorized ||
		strings.Contains(answer.Msg, "Invalid credentials") || strings.Contains(answer.Msg, "Invalid Credential"))
}

// attempt commits and waits for the end of the job; job is 0 if there was nothing to commit.
func (c *Committer) attempt(ctx context.Context) (job uint, err error) {
	client := c.client // a new copy: a failed attempt leaves its key in the client
	client.Logging = pango.LogQuiet
	client.Transport = transport(ctx, client.VerifyCertificate)
	defer client.Transport.CloseIdleConnections()
	if err := client.Initialize(); err != nil {
		return 0, fmt.Errorf("log in: %w", err)
	}
	job, _, err = client.Commit(commit.FirewallCommit{Admins: []string{client.Username}}, "", nil)
	if err != nil {
		return 0, fmt.Errorf("begin the commit: %w", err)
	}
	if job == 0 {
		return 0, nil
	}
	return job, wait(ctx, &client, job)
}

// wait polls the job until it has ended.
func wait(ctx context.Context, client *pango.Client, job uint) error {
	type show struct {
		XMLName xml.Name `xml:"show"`
		ID      uint     `xml:"jobs>id"`
	}
	rest := firstPoll
	for {
		var state util.BasicJob
		if _, err := client.Op(show{ID: job}, "", nil, &state); err != nil {
			return fmt.Errorf("poll the commit (job %d): %w", job, err)
		}
		ended, err := result(&state)
		if ended {
			if err != nil {
				return fmt.Errorf("the commit (job %d): %w", job, err)
			}
			return nil
		}
		if !delay.For(ctx, rest) {
			return context.Cause(ctx)
		}
		rest = min(rest*3/2, longestPause)
	}
}

// result reports whether a job has ended, and its error.
func result(job *util.BasicJob) (ended bool, err error) {
	if job.Progress != 100 {
		return false, nil
	}
	failed := 0
	for _, d := range job.Devices {
		switch d.Result {
		case "PEND":
			return false, nil
		case "OK":
		default:
			failed++
		}
	}
	switch {
	case job.Result == "FAIL" && len(job.Details.Lines) > 0:
		return true, errors.New(job.Details.String())
	case job.Result == "FAIL":
		return true, errors.New("it failed, and PAN-OS gave no reason: check the job there")
	case failed > 0:
		return true, fmt.Errorf("it failed on %d of %d devices: check the job in Panorama", failed, len(job.Devices))
	}
	return true, nil
}

// transport returns a transport whose connections end with ctx, which pango does not support.
func transport(ctx context.Context, verify bool) *http.Transport {
	dialer := &net.Dialer{}
	return &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: !verify},
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		},
	}
}
