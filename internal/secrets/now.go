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
)

// New returns a source that reads with the clients of a configuration of AWS.
func New(cfg aws.Config) *Source {
	return &Source{SecretsManager: secretsmanager.NewFromConfig(cfg), Parameters: ssm.NewFromConfig(cfg), Now: time.Now}
}

// Secret returns what a secret of Secrets Manager holds now, whatever Get has
// kept. It is named by its ARN, as Get takes it, or by its name. With a key it is
// what a secret in JSON has there.
func (s *Source) Secret(ctx context.Context, name, key string) (string, error) {
	at, err := arn.Parse(name)
	if err != nil {
		return s.secretValue(ctx, name, &secretsmanager.GetSecretValueInput{SecretId: &name}, key, "")
	}
	if key != "" {
		if strings.Count(at.Resource, ":") > 1 {
			return "", &wrongError{fmt.Errorf("secret %s and the key %q: the ARN goes on behind the secret's name, so it has to name the key, too", name, key)}
		}
		at.Resource += ":" + key
	}
	return s.secret(ctx, name, at)
}

// Parameter returns the value that a parameter of SSM has now, whatever Get has
// kept. It is named by its ARN or by its name.
func (s *Source) Parameter(ctx context.Context, name string) (string, error) {
	if at, err := arn.Parse(name); err == nil {
		return s.parameter(ctx, name, at)
	}
	return s.parameterValue(ctx, name, "")
}
