// Settle is the function that receives ECS's events of stopped tasks. Runs that a container did not
// finish become lost, with the reason, and functions/reconcile is invoked for a new decision.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
)

func main() {
	h, err := newHandler(context.Background(), os.Environ(), os.Stdout)
	if err != nil {
		logging.JSON(os.Stdout, slog.LevelInfo).Error("the function is not configured correctly", "error", err)
		os.Exit(1)
	}
	lambda.Start(h.handle)
}

// newHandler builds the handler, once per process.
func newHandler(ctx context.Context, environ []string, out io.Writer) (*handler, error) {
	settings, err := settings.Read[settings.Settle](environ)
	if err != nil {
		return nil, err
	}
	cfg, err := awsenv.Config(ctx)
	if err != nil {
		return nil, err
	}
	return &handler{
		store:   summary.Keep(dynamo.New(cfg, settings.Table)),
		cluster: settings.Cluster,
		family:  ecstask.Family(settings.TaskDefinition),
		now:     time.Now,
		log:     logging.JSON(out, slog.LevelInfo),
		metrics: metrics.New(out, settings.Stack),
		proceed: function.Function{Client: awslambda.NewFromConfig(cfg), Name: settings.ReconcileFunction}.Tick,
	}, nil
}
