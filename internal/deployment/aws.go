package deployment

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
	// attempts and longestWait bound what one request may cost: a tick comes
	// every minute, and what cannot be done within seconds is done better by
	// the next one. The SDK's own 3 attempts with waits of up to 20 s suit
	// neither.
	attempts    = 4
	longestWait = time.Second

	// connectLimit and answerLimit are for a route that leads nowhere (a
	// security group that lets nothing out drops packets in silence). DynamoDB,
	// ECS and S3 answer in milliseconds.
	connectLimit = 3 * time.Second
	answerLimit  = 5 * time.Second
)

// AWS returns the configuration that the clients of AWS's services are made
// of, with limits that suit a tick. Credentials and region are found where AWS's
// own programs find them.
func AWS(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(httpClient()), config.WithLogger(logger(ctx)), config.WithRetryer(retryer))
	if err != nil {
		return aws.Config{}, fmt.Errorf("find the credentials and the region for AWS: %w", err)
	}
	return cfg, nil
}

// Lambda is AWS for a function, which has its credentials and its region in its
// environment. Not linking the SDK's other ways to find credentials makes the
// program 1.4 MB smaller.
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
