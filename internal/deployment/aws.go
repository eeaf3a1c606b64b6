package deployment

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
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
// of, with limits that suit a tick.
func AWS(ctx context.Context) (aws.Config, error) {
	client := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectLimit }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerLimit })
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(client),
		config.WithLogger(logging.LoggerFunc(func(kind logging.Classification, format string, args ...any) {
			level := slog.LevelDebug
			if kind == logging.Warn {
				level = slog.LevelWarn
			}
			slog.Log(ctx, level, fmt.Sprintf(format, args...), "by", "AWS SDK")
		})),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff = attempts, longestWait
			})
		}))
	if err != nil {
		return aws.Config{}, fmt.Errorf("find the credentials and the region for AWS: %w", err)
	}
	return cfg, nil
}
