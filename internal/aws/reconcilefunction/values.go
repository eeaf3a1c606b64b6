package reconcilefunction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// tokens reads tokens of remote drivers, and the values of templates.
type tokens struct {
	source *secrets.Source
	arn    string // of the stack's secret
}

// read returns a token as it is written in the task files, which may be a template. Without one, it
// is that of the stack.
func (t tokens) read(ctx context.Context, _ *config.Config, written string) (string, error) {
	if written != "" {
		return notify.Simple(t.look)(ctx, "token", written)
	}
	held, err := t.source.Stack(ctx, t.arn)
	if err == nil && held.HCPToken == "" {
		err = fault.As(fault.Person, errors.New("there is none: store it as hcp_token in the first secret of the stack's parameter SecretArns"))
	}
	return string(held.HCPToken), err
}

// sinks returns the sinks of notify blocks. Their templates read from AWS and from the function's
// environment.
func sinks(source *secrets.Source, store state.Store) *notify.Set {
	return &notify.Set{InAWS: true, Store: store, Evaluate: notify.Simple(tokens{source: source}.look)}
}

// own are the credentials of the function's role.
var own = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}

// look makes a call of a template: it reads from AWS or from the function's environment.
func (t tokens) look(ctx context.Context, function string, arguments []string) (string, error) {
	switch {
	case function == "secretsmanager" && len(arguments) <= 2:
		return t.source.Secret(ctx, arguments[0], strings.Join(arguments[1:], ""))
	case function == "ssm" && len(arguments) == 1:
		return t.source.Parameter(ctx, arguments[0])
	case len(arguments) == 1: // env and mustEnv
		if value, ok := os.LookupEnv(arguments[0]); ok && !slices.Contains(own, arguments[0]) {
			return value, nil
		}
		return "", fmt.Errorf("env %q: the function has no such environment variable", arguments[0])
	}
	return "", fmt.Errorf("%s has too many arguments", function)
}
