// Package vault reads secrets from Vault, and renews the token for that. Its errors contain no
// token and no secret.
package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Requests that Vault answers with 5xx, or not at all, are retried this often, after about these
// waits.
const (
	retries              = 2
	firstRetry, maxRetry = 250 * time.Millisecond, time.Second
)

// ErrNotFound means that the path has no secret, or none that the token may see.
var ErrNotFound = errors.New("there is no secret at this path")

// Secret is an answer of Vault. For the KV engine's version 2, Data has the secret under "data" and
// its metadata under "metadata".
type Secret = api.Secret

// Client reads from one Vault server. It is safe for concurrent use.
type Client struct {
	cfg    config.Vault
	client *api.Client // without a token
	log    *slog.Logger

	mu          sync.Mutex
	unwrapped   map[string]string  // tokens by their wrapping tokens
	renewed     string             // the last used token
	stopRenewal context.CancelFunc // nil if no token was used
	ctx         context.Context    // of the renewals
}

// New prepares a client without connecting. If the configuration says so, the client renews the
// token from its first use until ctx ends. An error names the invalid key.
func New(ctx context.Context, cfg config.Vault, log *slog.Logger) (*Client, error) {
	if cfg.Address == "" {
		return nil, errors.New("vault.address is not set: set it in the vault block or in VAULT_ADDR")
	}
	t, err := transport(cfg)
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(&api.Config{
		Address: cfg.Address, MaxRetries: retries, MinRetryWait: firstRetry, MaxRetryWait: maxRetry,
		HttpClient: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // vault/api itself follows one redirect: to the active server
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to Vault at %s: %w", cfg.Address, err)
	}
	// The configuration has read the environment already.
	client.ClearToken()
	client.ClearNamespace()
	if cfg.Namespace != "" {
		client.SetNamespace(cfg.Namespace)
	}
	return &Client{cfg: cfg, client: client, log: log, unwrapped: map[string]string{}, ctx: ctx}, nil
}

func transport(cfg config.Vault) (*http.Transport, error) {
	tls := cfg.TLS
	if !tls.Enabled {
		tls = config.ClientTLS{}
	}
	t, err := cfg.Transport.HTTP(tls)
	if err != nil {
		return nil, fmt.Errorf("use vault.tls: %w", err)
	}
	t.ForceAttemptHTTP2 = true
	return t, nil
}

// Read returns the secret at a path. For the KV engine's version 2, the path may have "data/" after
// the engine's path or not.
func (c *Client) Read(ctx context.Context, at string) (*Secret, error) {
	query, err := queryOf(&at)
	if err != nil {
		return nil, err
	}
	secret, err := c.ask(ctx, at, "data", func(client *api.Logical, at string) (*Secret, error) {
		return client.ReadWithDataWithContext(ctx, at, query)
	})
	if err == nil && deleted(secret) {
		return nil, ErrNotFound
	}
	return secret, err
}

// Write sends data to a path and returns the answer, such as a certificate that an engine issues.
func (c *Client) Write(ctx context.Context, at string, data map[string]any) (*Secret, error) {
	return c.ask(ctx, clean(at), "", func(client *api.Logical, at string) (*Secret, error) {
		return client.WriteWithContext(ctx, at, data)
	})
}

// List returns the names below a path; names of folders end in a slash.
func (c *Client) List(ctx context.Context, at string) ([]string, error) {
	secret, err := c.ask(ctx, clean(at), "metadata", func(client *api.Logical, at string) (*Secret, error) {
		return client.ListWithContext(ctx, at)
	})
	if err != nil {
		return nil, err
	}
	keys, _ := secret.Data["keys"].([]any)
	names := make([]string, 0, len(keys))
	for _, key := range keys {
		if name, ok := key.(string); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// ask sends a request with the current token. kind is the part of a path that the KV
// engine's version 2 has for such requests; "" for none.
func (c *Client) ask(ctx context.Context, at, kind string, send func(client *api.Logical, at string) (*Secret, error)) (*Secret, error) {
	client, err := c.authorised(ctx)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		if at, err = c.inKV(ctx, client, at, kind); err != nil {
			return nil, err
		}
	}
	secret, err := send(client.Logical(), at)
	switch {
	case err != nil:
		return nil, c.explain(ctx, err)
	case secret == nil:
		return nil, ErrNotFound
	}
	return secret, nil
}

// inKV adds data or metadata to a path of the KV engine's version 2.
func (c *Client) inKV(ctx context.Context, client *api.Client, at, kind string) (string, error) {
	mount, err := client.Logical().ReadWithContext(ctx, "sys/internal/ui/mounts/"+at)
	if err != nil {
		// The token may have no right on the path, or Vault is old. The read that follows reports
		// this better, or succeeds.
		if status := statusOf(err); status == http.StatusForbidden || status == http.StatusNotFound {
			return at, nil
		}
		return "", c.explain(ctx, err)
	}
	if mount == nil {
		return at, nil
	}
	options, _ := mount.Data["options"].(map[string]any)
	root, _ := mount.Data["path"].(string)
	if version, _ := options["version"].(string); version != "2" || root == "" {
		return at, nil
	}
	below, ok := strings.CutPrefix(at+"/", root)
	if !ok {
		return at, nil // root begins with the token's namespace
	}
	if below = strings.TrimSuffix(below, "/"); below == kind || strings.HasPrefix(below, kind+"/") {
		return at, nil
	}
	return path.Join(root, kind, below), nil
}

// deleted reports whether the version of a KV secret is deleted: Vault then still returns the time
// of deletion.
func deleted(s *Secret) bool {
	data, ok := s.Data["data"]
	_, kv := s.Data["metadata"]
	return ok && kv && data == nil
}

// queryOf removes the query from the end of a path and returns it: the parameters of the request,
// such as version=3 of the KV engine and ttl=15m of the AWS engine.
func queryOf(at *string) (url.Values, error) {
	rest, text, _ := strings.Cut(*at, "?")
	*at = clean(rest)
	query, err := url.ParseQuery(text)
	if err != nil {
		return nil, errors.New("the path has invalid parameters after the ?: write them as in version=3 or ttl=15m")
	}
	return query, nil
}

func clean(at string) string { return strings.Trim(strings.TrimSpace(at), "/") }

// authorised returns a client with the current token.
func (c *Client) authorised(ctx context.Context) (*api.Client, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	client, err := c.with(token)
	if err != nil {
		return nil, err
	}
	if c.cfg.RenewToken {
		c.keep(client, token)
	}
	return client, nil
}

func (c *Client) with(token string) (*api.Client, error) {
	client, err := c.client.CloneWithHeaders() // the namespace is a header
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to Vault at %s: %w", c.cfg.Address, err)
	}
	client.SetToken(token)
	return client, nil
}

// token returns the current token: from the file of Vault Agent, or the configured one, unwrapped
// if it was wrapped.
func (c *Client) token(ctx context.Context) (string, error) {
	token := c.cfg.Token
	if file := c.cfg.AgentTokenFile; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read Vault Agent's token in vault.vault_agent_token_file: %w", err)
		}
		if token = agentToken(text); token == "" {
			return "", fmt.Errorf("%s (vault.vault_agent_token_file) contains no token: is Vault Agent running, and has it logged in?", file)
		}
	}
	if token == "" {
		return "", errors.New("there is no Vault token: set VAULT_TOKEN, or vault_agent_token_file in the vault block")
	}
	if !c.cfg.UnwrapToken {
		return token, nil
	}
	return c.unwrap(ctx, token)
}

// agentToken returns the token in a sink file of Vault Agent, which contains the token or the
// answer to a wrapping request.
func agentToken(text []byte) string {
	text = bytes.TrimSpace(text)
	var wrapped struct {
		Token string `json:"token"`
	}
	if bytes.HasPrefix(text, []byte("{")) && json.Unmarshal(text, &wrapped) == nil {
		return wrapped.Token
	}
	return string(text)
}

// unwrap returns the token in a wrapping token. Vault returns it only once.
func (c *Client) unwrap(ctx context.Context, wrapping string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token, ok := c.unwrapped[wrapping]; ok {
		return token, nil
	}
	client, err := c.with(wrapping)
	if err != nil {
		return "", err
	}
	secret, err := client.Logical().UnwrapWithContext(ctx, wrapping)
	if statusOf(err) == http.StatusBadRequest {
		return "", errors.New("the Vault token cannot be unwrapped (vault.unwrap_token): it is not a wrapping token, has expired, or was unwrapped before, " +
			"which nobody but this process should have done; give it a new one")
	}
	if err != nil {
		return "", fmt.Errorf("unwrap the Vault token: %w", c.explain(ctx, err))
	}
	token := ""
	if secret != nil && secret.Auth != nil {
		token = secret.Auth.ClientToken
	} else if secret != nil {
		token, _ = secret.Data["token"].(string)
	}
	if token == "" {
		return "", errors.New("the Vault token (vault.unwrap_token) does not contain a token: wrap the answer to a login or to the creation of a token")
	}
	// Vault Agent writes one wrapping token after the other; only the latest is used again.
	c.unwrapped = map[string]string{wrapping: token}
	return token, nil
}

// statusOf returns the status of an answer that is an error; 0 for other errors.
func statusOf(err error) int {
	if answer := new(api.ResponseError); errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// explain adds to an error of Vault what it means and what to do.
func (c *Client) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the Vault at %s: %w", c.cfg.Address, cause)
	}
	status := new(api.ResponseError)
	if !errors.As(err, &status) {
		return fmt.Errorf("the Vault at %s does not answer: %w", c.cfg.Address, err)
	}
	said := strings.Join(strings.Fields(strings.Join(status.Errors, "; ")), " ")
	switch status.StatusCode {
	case http.StatusForbidden:
		advice := "the token has expired, or its policies do not allow it"
		if c.cfg.Namespace != "" {
			advice += ", or it is of another namespace than " + c.cfg.Namespace
		}
		return fmt.Errorf("the Vault at %s: permission denied: %s (%s)", c.cfg.Address, advice, said)
	case http.StatusServiceUnavailable:
		return fmt.Errorf("the Vault at %s is sealed, or not active: unseal it (%s)", c.cfg.Address, said)
	}
	return fmt.Errorf("the Vault at %s answers %d: %s", c.cfg.Address, status.StatusCode, said)
}
