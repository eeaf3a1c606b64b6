package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/terrapulse/terrapulse/internal/notify"
	"github.com/terrapulse/terrapulse/internal/secrets"
)

// sinks returns the sinks of notify blocks. Their templates read from AWS and from the function's
// environment.
func sinks(source *secrets.Source) *notify.Set {
	return &notify.Set{InAWS: true, Evaluate: notify.Simple(func(ctx context.Context, function string, arguments []string) (string, error) {
		switch {
		case function == "secretsmanager" && len(arguments) <= 2:
			return source.Secret(ctx, arguments[0], strings.Join(arguments[1:], ""))
		case function == "ssm" && len(arguments) == 1:
			return source.Parameter(ctx, arguments[0])
		case len(arguments) == 1: // env and mustEnv
			if value, ok := os.LookupEnv(arguments[0]); ok {
				return value, nil
			}
			return "", fmt.Errorf("env %q: the function has no such environment variable", arguments[0])
		}
		return "", fmt.Errorf("%s has too many arguments", function)
	})}
}
