// Package awsconfig creates the configuration of AWS clients: for the functions, for the container
// and for commands.
package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

const (
	// attempts and longestWait limit the time of one request: after seconds of failure, the next
	// tick, within a minute, is the better retry. The SDK waits up to 20 s by default.
	attempts    = 4
	longestWait = time.Second

	// connectLimit and answerLimit end a request whose packets are dropped, for example by a
	// security group. DynamoDB, ECS and S3 answer in milliseconds.
	connectLimit = 3 * time.Second
	answerLimit  = 5 * time.Second
)

// Load returns a configuration with limits for a tick, and the credentials and the region that the
// AWS command line would use.
func Load(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(httpClient()), config.WithLogger(logger(ctx)), config.WithRetryer(retryer))
	if err != nil {
		return aws.Config{}, fmt.Errorf("find the credentials and the region for AWS: %w", err)
	}
	return cfg, nil
}

// Lambda is Load for a function, whose credentials and region are in its environment. Without the
// SDK's other sources of credentials the program is 1.4 MB smaller.
func Lambda(ctx context.Context) (aws.Config, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the environment for AWS: %w", err)
	}
	if env.Region == "" || !env.Credentials.HasKeys() {
		return aws.Config{}, errors.New("the environment has no AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which Lambda sets for each function")
	}
	return aws.Config{
		Region: env.Region, Credentials: credentials.StaticCredentialsProvider{Value: env.Credentials},
		HTTPClient: httpClient(), Logger: logger(ctx), Retryer: retryer,
		ConfigSources: []any{env}, // endpoints
	}, nil
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

func httpClient() aws.HTTPClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectLimit }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerLimit })
}

func logger(ctx context.Context) logging.Logger {
	return logging.LoggerFunc(func(kind logging.Classification, format string, args ...any) {
		level := slog.LevelDebug
		if kind == logging.Warn {
			level = slog.LevelWarn
		}
		slog.Log(ctx, level, fmt.Sprintf(format, args...), "by", "AWS SDK")
	})
}

func retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, longestWait
	})
}
