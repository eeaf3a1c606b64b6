// Package awsenv creates the configuration of AWS clients of functions, from the environment that
// Lambda gives them. Without the SDK's other sources of credentials, a program is 1.7 MB smaller.
package awsenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

const (
	// attempts and longestWait limit the time of one request: after seconds of failure, the next
	// tick, within a minute, is the better retry. The SDK waits up to 20 s by default.
	attempts    = 4
	longestWait = time.Second

	// connectLimit and AnswerLimit end a request whose packets are dropped, for example by a
	// security group. DynamoDB, ECS and S3 answer in milliseconds.
	connectLimit = 3 * time.Second
	AnswerLimit  = 5 * time.Second
)

// Config returns a configuration with limits for a tick.
func Config(ctx context.Context) (aws.Config, error) {
	region, id, secret := os.Getenv("AWS_REGION"), os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	if region == "" || id == "" || secret == "" {
		return aws.Config{}, errors.New("the environment has no AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which Lambda sets for each function")
	}
	return aws.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider(id, secret, os.Getenv("AWS_SESSION_TOKEN")),
		HTTPClient: HTTPClient(AnswerLimit), Logger: Logger(ctx), Retryer: Retryer,
		ConfigSources: []any{endpoints{}},
	}, nil
}

// endpoints are the settings of the environment for the addresses of services. The SDK calls its
// methods.
type endpoints struct{}

// GetServiceBaseEndpoint returns the address of a service.
func (endpoints) GetServiceBaseEndpoint(_ context.Context, service string) (string, bool, error) {
	address := os.Getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(service), " ", "_"))
	return address, address != "", nil
}

// GetUseFIPSEndpoint reports whether addresses with cryptography that FIPS 140 approves are used.
func (endpoints) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	if !isTrue("AWS_USE_FIPS_ENDPOINT") {
		return aws.FIPSEndpointStateUnset, false, nil
	}
	return aws.FIPSEndpointStateEnabled, true, nil
}

// GetUseDualStackEndpoint reports whether addresses that work with IPv6, too, are used.
func (endpoints) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	if !isTrue("AWS_USE_DUALSTACK_ENDPOINT") {
		return aws.DualStackEndpointStateUnset, false, nil
	}
	return aws.DualStackEndpointStateEnabled, true, nil
}

func isTrue(name string) bool { return strings.EqualFold(os.Getenv(name), "true") }

// HTTPClient returns a client that waits for seconds until it is connected, and for a time until an answer
// begins.
func HTTPClient(answer time.Duration) aws.HTTPClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectLimit }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answer })
}

// Logger returns what logs messages of the SDK.
func Logger(ctx context.Context) logging.Logger {
	return logging.LoggerFunc(func(kind logging.Classification, format string, args ...any) {
		level := slog.LevelDebug
		if kind == logging.Warn {
			level = slog.LevelWarn
		}
		slog.Log(ctx, level, fmt.Sprintf(format, args...), "by", "AWS SDK")
	})
}

// Retryer returns what retries requests, for seconds at most.
func Retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, longestWait
	})
}
