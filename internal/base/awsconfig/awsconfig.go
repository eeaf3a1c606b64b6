// Package awsconfig creates the configuration of AWS clients: for the container and for commands.
// Package awsenv does that for the functions.
package awsconfig

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/terrapulse/terrapulse/internal/base/awsenv"
)

// Load returns a configuration with limits for a tick, and the credentials and the region that the
// AWS command line would use.
func Load(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awsenv.HTTPClient(awsenv.AnswerLimit)), config.WithLogger(awsenv.Logger(ctx)), config.WithRetryer(awsenv.Retryer))
	if err != nil {
		return aws.Config{}, fmt.Errorf("find the credentials and the region for AWS: %w", err)
	}
	return cfg, nil
}

// ForCommand returns a configuration without these limits, for a command that a person runs. If
// region is "", it uses the default region of the AWS command line.
func ForCommand(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithLogger(logging.Nop{}))
	if err != nil {
		return cfg, fmt.Errorf("find credentials and region for AWS: %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region is set: set AWS_REGION, or a region in your AWS profile")
	}
	return cfg, nil
}
