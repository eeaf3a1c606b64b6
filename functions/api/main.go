// Command api is the function behind the function URL: the HTTP API of `terrapulse start` on the
// records of the table. It writes requested changes there, and functions/reconcile does the rest.
// IAM decides who may use it.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambdaurl"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/access"
	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/awsconfig"
	"github.com/terrapulse/terrapulse/internal/config/bundle"
	"github.com/terrapulse/terrapulse/internal/deployment"
	"github.com/terrapulse/terrapulse/internal/invoke/function"
	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/logging"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/runlog"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/dynamo"
)

const (
	// poll is the interval at which a run is polled that a request waits for: a container takes
	// half a minute to start.
	poll = time.Second
	// reserve is the part of the invocation's time that is kept for the answer that the time is
	// over.
	reserve = 3 * time.Second
	// inspectLimit limits how long functions/reconcile may take to start an inspection: it answers
	// before the container runs.
	inspectLimit = time.Minute
)

// version is set by the build.
var version = "dev"

func main() {
	h, err := newHandler(context.Background(), os.Environ(), os.Stdout)
	if err != nil {
		logging.JSON(os.Stdout, slog.LevelInfo).Error("the function is not configured correctly", "error", err)
		os.Exit(1)
	}
	lambdaurl.Start(h)
}

// newHandler builds the handler, once for all requests of a process.
func newHandler(ctx context.Context, environ []string, out io.Writer) (http.Handler, error) {
	settings, err := deployment.Read[deployment.API](environ)
	if err != nil {
		return nil, err
	}
	cfg, err := awsconfig.Lambda(ctx)
	if err != nil {
		return nil, err
	}
	store, objects := dynamo.New(cfg, settings.Table), s3.NewFromConfig(cfg)
	reconciler := function.Function{Name: settings.ReconcileFunction, Client: awslambda.NewFromConfig(cfg, func(o *awslambda.Options) {
		// A repeated request would start a second inspection.
		o.HTTPClient, o.Retryer = awshttp.NewBuildableClient().WithTimeout(inspectLimit), aws.NopRetryer{}
	})}
	log := logging.JSON(out, settings.LogLevel)
	inForce := &inForce{store: store, bundles: bundle.Bucket{Client: objects, Location: settings.Bundle}}
	return inTime(request.Compressed(http.MaxBytesHandler(api.New(api.Options{
		Control: &reconcile.Control{
			Store: store, Base: inForce.load, Source: new(overlay.Source), Plan: inspect(reconciler), Wake: wake(reconciler, log),
			Output: func(ctx context.Context, url string) ([]byte, error) {
				output, err := runlog.Load(ctx, objects, url)
				if errors.Is(err, runlog.ErrGone) {
					err = errors.Join(state.ErrNotFound, err)
				}
				return output, err
			},
			Poll: poll, Now: time.Now,
		},
		Links: links(ecstask.Console{Cluster: settings.Cluster, LogGroup: settings.RunnerLog}),
		Who:   who, Log: log, Version: version, Store: apispec.Store{Kind: "dynamodb", Where: settings.Table},
	}), request.MaxBody))), nil
}

// links returns a function that returns the pages of the AWS console about the container of a run.
func links(console ecstask.Console) func(state.Run) *apispec.RunLinks {
	return func(run state.Run) *apispec.RunLinks {
		if run.Runner == "" {
			return nil
		}
		return &apispec.RunLinks{Container: console.Task(run.Runner), Logs: console.Log(run.Runner)}
	}
}

// inTime ends a request before the invocation's time is over, so that it gets an answer.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if deadline, ok := r.Context().Deadline(); ok {
			ctx, cancel := context.WithDeadline(r.Context(), deadline.Add(-reserve))
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// who returns the caller that IAM has authenticated.
func who(r *http.Request) access.Sender {
	if request, ok := lambdaurl.RequestFromContext(r.Context()); ok {
		if by := request.RequestContext.Authorizer; by != nil && by.IAM != nil && by.IAM.UserARN != "" {
			return access.Sender{Name: by.IAM.UserARN, Authenticated: true}
		}
	}
	return access.Sender{Name: "the API"}
}
