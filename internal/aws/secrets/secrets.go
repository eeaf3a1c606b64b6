// Package secrets reads secrets by their ARNs from Secrets Manager and SSM parameters, and passes
// those for Consul to its client. Values are cached in memory for some minutes, and are in no
// error.
package secrets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/fault"
)

const (
	// fresh is how long a cached value is used: short enough for rotated secrets, and with a tick
	// per minute it costs 300 reads a day.
	fresh = 5 * time.Minute
	// stale is how long a cached value is used if it cannot be read for a transient reason. An
	// outage of Secrets Manager must not stop running tasks.
	stale = time.Hour
	// pause is how long such a failure is cached.
	pause = time.Minute
)

// Source reads secrets. It is safe for concurrent use.
type Source struct {
	Now func() time.Time

	client *awsjson.Client

	mu     sync.Mutex
	values map[string]*value // by ARN
}

// New returns a source that uses the clients of an AWS configuration.
func New(cfg aws.Config) *Source {
	return &Source{Now: time.Now, client: awsjson.New(cfg), values: map[string]*value{}}
}

// value is a cached secret.
type value struct {
	mu    sync.Mutex // held while the secret is read
	text  string
	read  time.Time // zero if it was never read, or was dropped
	again time.Time // after a failure: do not read again before this time
}

// Get returns the value of a secret. The ARN is that of an SSM parameter, or of a secret in Secrets
// Manager with the optional suffix of ECS: :json-key:version-stage:version-id, of which each may be
// empty. A value is at most 5 minutes old, or an hour if it cannot be read for a transient reason.
func (s *Source) Get(ctx context.Context, name string) (string, error) {
	v := s.value(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	now := s.Now()
	known := !v.read.IsZero()
	if known && (now.Sub(v.read) < fresh || now.Before(v.again)) {
		return v.text, nil
	}
	text, err := s.read(ctx, name)
	switch {
	case err == nil:
		v.text, v.read, v.again = text, now, time.Time{}
	case known && !fault.NeedsPerson(err) && now.Sub(v.read) < stale:
		v.again = now.Add(pause)
	default:
		return "", err
	}
	return v.text, nil
}

// Drop removes the stack's secret from the cache if its Consul token is the one that was denied, so that it is read again.
func (s *Source) Drop(arn, denied string) {
	v := s.value(arn)
	v.mu.Lock()
	defer v.mu.Unlock()
	var held Stack
	if held.UnmarshalText([]byte(v.text)) == nil && string(held.ConsulToken) == denied {
		v.text, v.read, v.again = "", time.Time{}, time.Time{}
	}
}

// Secret returns the current value of a secret in Secrets Manager, ignoring the cache of Get. The
// name is its ARN, as for Get, or its name. With a key, it returns the value of that key of a
// secret in JSON.
func (s *Source) Secret(ctx context.Context, name, key string) (string, error) {
	in := map[string]string{"SecretId": name}
	at, err := arn.Parse(name)
	if err == nil {
		// secret:NAME:KEY:STAGE:VERSION; a name has no colon.
		parts := strings.Split(at.Resource, ":")
		switch {
		case len(parts) < 2 || len(parts) > 5 || parts[0] != "secret" || parts[1] == "":
			return "", fault.As(fault.Person, fmt.Errorf("%s is not an ARN of a secret: it must end in secret:NAME, and :KEY:: for one key of a secret in JSON", name))
		case key != "" && len(parts) > 2:
			return "", fault.As(fault.Person, fmt.Errorf("secret %s and the key %q: the ARN continues after the secret's name, so it must contain the key, too", name, key))
		}
		parts = append(parts, "", "", "")
		key = cmp.Or(key, parts[2])
		at.Resource = parts[0] + ":" + parts[1]
		in["SecretId"] = at.String()
		if parts[3] != "" {
			in["VersionStage"] = parts[3]
		}
		if parts[4] != "" {
			in["VersionId"] = parts[4]
		}
	}
	var out struct{ SecretString *string }
	if err := s.client.Call(ctx, awsjson.GetSecretValue, at.Region, in, &out); err != nil {
		return "", explain(name, string(awsjson.GetSecretValue), err)
	}
	if out.SecretString == nil {
		return "", fault.As(fault.Person, fmt.Errorf("secret %s is binary: store it as text", name))
	}
	text := *out.SecretString
	if key != "" {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &object) != nil {
			return "", fault.As(fault.Person, fmt.Errorf("secret %s is not a JSON object, so it has no key %q: store one, or read the whole secret", name, key))
		}
		switch value := object[key]; {
		case len(value) == 0 || strings.ContainsRune("{[n", rune(value[0])): // an object, an array or null
			return "", fault.As(fault.Person, fmt.Errorf("secret %s has no key %q with a string or a number: check its content and the key", name, key))
		case json.Unmarshal(value, &text) != nil: // a number or a bool
			text = string(value)
		}
	}
	return filled(name, text)
}

// Parameter returns the current value of an SSM parameter, ignoring the cache of Get. The name is
// its ARN or its name.
func (s *Source) Parameter(ctx context.Context, name string) (string, error) {
	at, err := arn.Parse(name)
	if err == nil && !strings.HasPrefix(at.Resource, "parameter/") {
		return "", fault.As(fault.Person, fmt.Errorf("%s is not an ARN of a parameter: it must end in parameter/NAME", name))
	}
	in := map[string]any{"Name": name, "WithDecryption": true}
	var out struct{ Parameter *struct{ Value string } }
	if err := s.client.Call(ctx, awsjson.GetParameter, at.Region, in, &out); err != nil {
		return "", explain(name, string(awsjson.GetParameter), err)
	}
	if out.Parameter == nil {
		return "", fmt.Errorf("read parameter %s: the answer contains no value", name)
	}
	return filled(name, out.Parameter.Value)
}

func (s *Source) value(name string) *value {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[name] == nil {
		s.values[name] = &value{}
	}
	return s.values[name]
}

func (s *Source) read(ctx context.Context, name string) (string, error) {
	at, err := arn.Parse(name)
	if err != nil {
		return "", fault.As(fault.Person, fmt.Errorf("%q is not an ARN: use the ARN of a Secrets Manager secret or of an SSM parameter", name))
	}
	switch at.Service {
	case "secretsmanager":
		return s.Secret(ctx, name, "")
	case "ssm":
		return s.Parameter(ctx, name)
	}
	return "", fault.As(fault.Person, fmt.Errorf("%s is an ARN of %s: use one of a Secrets Manager secret or of an SSM parameter", name, at.Service))
}

// trim removes spaces and newlines at the end of a secret. They come from the file that it was
// stored from: `--secret-string file://token` keeps the last newline.
func trim(text string) string { return strings.TrimRight(text, " \t\r\n") }

// filled trims a value and refuses an empty one: an empty secret is always a mistake.
func filled(name, text string) (string, error) {
	if text = trim(text); text == "" {
		return "", fault.As(fault.Person, fmt.Errorf("secret %s is empty: store the value in it", name))
	}
	return text, nil
}

// explain adds to an AWS error what to do about it.
func explain(name, action string, err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("read secret %s: %w", name, err)
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound":
		err = fmt.Errorf("it does not exist: check its name or ARN, and the version (%w)", err)
	case "InvalidRequestException":
		err = fmt.Errorf("it may be marked for deletion: restore it, or use another one (%w)", err)
	case "AccessDeniedException":
		err = fmt.Errorf("access is denied: the role needs %s on it and, with a KMS key of your own, kms:Decrypt; a secret of another account has to allow it, too (%w)", action, err)
	case "DecryptionFailure", "InvalidKeyId":
		err = fmt.Errorf("it cannot be decrypted: the role needs kms:Decrypt, and the KMS key must be enabled (%w)", err)
	default:
		return fmt.Errorf("read secret %s: %w", name, err)
	}
	return fault.As(fault.Person, fmt.Errorf("read secret %s: %w", name, err))
}
