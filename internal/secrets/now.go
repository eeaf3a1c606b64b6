package secrets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/terrapulse/terrapulse/internal/fault"
)

// New returns a source that uses the clients of an AWS configuration.
func New(cfg aws.Config) *Source {
	return &Source{
		SecretsManager: getSecretValue(secretsmanager.NewFromConfig(cfg).GetSecretValue),
		Parameters:     getParameter(ssm.NewFromConfig(cfg).GetParameter),
		Now:            time.Now,
	}
}

// A client in an interface links all of its operations, some 200, into a program that calls methods
// by name, as text/template does: 5 MB of binary and 4 MB of memory. A function for one operation
// does not.
type (
	getSecretValue func(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
	getParameter   func(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
)

func (f getSecretValue) GetSecretValue(ctx context.Context, in *secretsmanager.GetSecretValueInput, opts ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error) {
	return f(ctx, in, opts...)
}

func (f getParameter) GetParameter(ctx context.Context, in *ssm.GetParameterInput, opts ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	return f(ctx, in, opts...)
}

// Secret returns the current value of a secret in Secrets Manager, ignoring the cache of Get. The
// name is its ARN, as for Get, or its name. With a key, it returns the value of that key of a
// secret in JSON.
func (s *Source) Secret(ctx context.Context, name, key string) (string, error) {
	at, err := arn.Parse(name)
	if err != nil {
		return s.secretValue(ctx, name, &secretsmanager.GetSecretValueInput{SecretId: &name}, key, "")
	}
	if key != "" {
		if strings.Count(at.Resource, ":") > 1 {
			return "", fault.As(fault.Person, fmt.Errorf("secret %s and the key %q: the ARN continues after the secret's name, so it must contain the key, too", name, key))
		}
		at.Resource += ":" + key
	}
	return s.secret(ctx, name, at)
}

// Parameter returns the current value of an SSM parameter, ignoring the cache of Get. The name is
// its ARN or its name.
func (s *Source) Parameter(ctx context.Context, name string) (string, error) {
	if at, err := arn.Parse(name); err == nil {
		return s.parameter(ctx, name, at)
	}
	return s.parameterValue(ctx, name, "")
}
