package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// Stack is the content of the stack's secret, the first in the parameter SecretArns: a JSON object in
// which every key may be missing.
type Stack struct {
	ConsulToken      Text `json:"consul_token"`
	ConsulCACert     Text `json:"consul_ca_cert"` // this and the next two in PEM
	ConsulClientCert Text `json:"consul_client_cert"`
	ConsulClientKey  Text `json:"consul_client_key"`
	VaultToken       Text `json:"vault_token"`
	HCPToken         Text `json:"hcp_token"`

	// For private modules and providers: lines of git's credential store, a private key, lines of
	// known_hosts, and tokens of registries by host.
	GitCredentials Text            `json:"git_credentials"`
	GitSSHKey      Text            `json:"git_ssh_key"`
	GitKnownHosts  Text            `json:"git_known_hosts"`
	RegistryTokens map[string]Text `json:"registry_tokens"`
}

// Text is a secret without spaces and newlines at its end, which come from the file that it was stored
// from. An empty one is as none.
type Text string

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text(trim(string(text)))
	return nil
}

// UnmarshalText reads the secret. Its errors name keys, never values.
func (s *Stack) UnmarshalText(text []byte) error {
	type plain Stack
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode((*plain)(s))
	unknown, isUnknown := strings.CutPrefix(fmt.Sprint(err), "json: unknown field ")
	wrong, isWrong := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case json.Unmarshal(text, new(map[string]json.RawMessage)) != nil: // its text quotes a character
		err = errors.New("it is not a JSON object")
	case isUnknown:
		err = fmt.Errorf("it has an unknown key, %s", unknown)
	case isWrong:
		err = fmt.Errorf("the value of %s has another type than text (registry_tokens: an object with texts)", wrong.Field)
	case s.ConsulClientCert != "" && s.ConsulClientKey == "":
		err = errors.New("consul_client_cert needs consul_client_key, the private key of the certificate")
	case s.GitSSHKey != "" && s.GitKnownHosts == "":
		err = errors.New("git_ssh_key needs git_known_hosts, the output of `ssh-keyscan HOST`")
	}
	if err != nil {
		return fault.As(fault.Person, fmt.Errorf("the first secret in the parameter SecretArns: %w", err))
	}
	return nil
}

// Stack returns the stack's secret, as Get does. It is empty without an ARN.
func (s *Source) Stack(ctx context.Context, arn string) (Stack, error) {
	var held Stack
	if arn == "" {
		return held, nil
	}
	text, err := s.Get(ctx, arn)
	if err != nil {
		return held, fmt.Errorf("read the first secret in the parameter SecretArns: %w", err)
	}
	return held, held.UnmarshalText([]byte(text))
}
