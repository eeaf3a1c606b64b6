// Command api is the function that serves the HTTP API of `terrapulse start` on the
// records of the table. It writes requested changes there, and functions/reconcile does the rest.
// IAM decides who may use it. What callers may do, grants in the bundle decide or, without any, the
// parameter ActArns.
package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/lambdahttp"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/aws/tableapi"
	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
)

// reserve is the part of the invocation's time that is kept for the answer that the time is
// over.
const reserve = 3 * time.Second

func main() {
	h, err := newHandler(context.Background(), os.Environ(), os.Stdout)
	if err != nil {
		logging.JSON(os.Stdout, slog.LevelInfo).Error("the function is not configured correctly", "error", err)
		os.Exit(1)
	}
	lambda.Start(lambdahttp.Handler{Handler: h})
}

// newHandler builds the handler, once for all requests of a process.
func newHandler(ctx context.Context, environ []string, out io.Writer) (http.Handler, error) {
	settings, err := settings.Read[settings.API](environ)
	if err != nil {
		return nil, err
	}
	cfg, err := awsenv.Config(ctx)
	if err != nil {
		return nil, err
	}
	served := tableapi.New(tableapi.Options{
		AWS: cfg, Store: summary.Keep(dynamo.New(cfg, settings.Table)), Table: settings.Table, Bundle: settings.Bundle, ReconcileFunction: settings.ReconcileFunction,
		Console: ecstask.Console{Stack: settings.Stack, Cluster: settings.Cluster, Logs: settings.LogGroups},
		Failed:  countFailed(metrics.New(out, settings.Stack)), Log: logging.JSON(out, slog.LevelInfo),
	})
	return inTime(middleware.Compressed(allowed(settings.Act, served.Policy, served.Refuse, http.MaxBytesHandler(served, middleware.MaxBody)))), nil
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

// countFailed returns a function that counts a request that cannot be answered.
func countFailed(w *metrics.Writer) func() {
	return func() {
		_ = w.Write(time.Now(), metrics.Values{metrics.RequestsFailed: 1}) // fails only if the log does
	}
}

// readOnly says what to do about a request that changes something, if there are no grants.
const readOnly = "the stack's parameter ActArns names who may act"

// allowed identifies callers, and finds what they may do: by the grants of the bundle in force or, if it
// has none, as the parameter ActArns says. IAM lets only those in who may use the function. refuse says
// which role somebody lacks who may change nothing.
func allowed(act settings.Principals, policy func(context.Context) (roles.Policy, error), refuse func(*http.Request) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grants, err := policy(r.Context())
		c := callerOf(who(r), act, grants)
		switch free := r.URL.Path == api.HealthPath; {
		case err != nil && free:
			c.Rights = roles.Rights{} // it is not known who may view
		case err != nil:
			middleware.Fail(w, r, http.StatusInternalServerError, "find out what "+c.Name+" may do: "+err.Error())
			return
		case !free && !c.Rights.MayAny(roles.View) && access.Reads(r.Method):
			middleware.Fail(w, r, http.StatusForbidden, c.NeedAny(roles.View).Error())
			return
		case !c.Rights.Acts() && !access.Reads(r.Method):
			middleware.Fail(w, r, http.StatusForbidden, refuse(r.WithContext(access.With(r.Context(), c))).Error())
			return
		}
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), c)))
	})
}

// callerOf returns a caller with their rights.
func callerOf(by access.Identity, act settings.Principals, grants roles.Policy) access.Caller {
	if grants.Set() {
		by = grants.Identify(by)
		return access.Caller{Identity: by, Rights: grants.Rights(by)}
	}
	c := access.Caller{Identity: by, Rights: roles.Viewing(), Remedy: readOnly}
	if act.Include(c.Name) {
		c.Rights = roles.Everything()
	}
	return c
}

// who returns the caller that IAM has authenticated.
func who(r *http.Request) access.Identity {
	if arn := lambdahttp.CallerARN(r.Context()); arn != "" {
		return identity.OfARN(arn)
	}
	return access.Identity{Name: "the API"}
}
