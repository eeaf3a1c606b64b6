// Command runner is the program in the container of an ECS task: it executes the runs of one launch
// with Terraform and exits. As process 1 of the container it does that in a child, so that it can
// collect the processes that others leave behind. The exit code is 0 if it did its job, whatever the outcomes of the
// runs; otherwise it is 1, and the reason is in its log and, if possible, in the runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/gitssh"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/base/otlp"
	"github.com/terrapulse/terrapulse/internal/consul"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/linger"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// errStopped is the reason of interrupted runs.
var errStopped = errors.New("ECS stopped the container (Spot reclaim, a deployment, or by hand)")

func main() {
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	if command == sshCommand {
		os.Exit(gitssh.Run(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if err := terraformcli.KeepPrivate(); err != nil {
		fail("keep the environment of the container private", err)
	}
	switch {
	case isInit():
		code, err := supervise()
		if err != nil {
			fail("run the worker of the container", err)
		}
		os.Exit(code)
	case command == workerCommand:
		if err := takeEnvironment(); err != nil {
			fail("start the worker of the container", err)
		}
	}
	os.Exit(run(context.Background(), os.Stdout))
}

// fail ends this process because it could not begin.
func fail(doing string, err error) {
	logging.JSON(os.Stdout, slog.LevelInfo).Error("the container cannot execute its launch", "doing", doing, "error", err)
	os.Exit(1)
}

func run(ctx context.Context, out io.Writer) int {
	signalled, ignore := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer ignore()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	context.AfterFunc(signalled, func() { stop(errStopped) })

	settings, err := settings.Read[settings.Runner](os.Environ())
	log := logging.JSON(out, &logging.Level)
	launch := settings.Launch
	if err == nil {
		var w *worker
		if w, err = newWorker(ctx, settings, out, log); err == nil {
			err = w.work(ctx, settings.Launch)
			launch = cmp.Or(w.launch, launch)
			w.providers.close(ctx)
			w.traces.Close()
		}
	}
	if err != nil {
		log.Error("the container cannot execute its launch", "launch", launch, "error", err)
		return 1
	}
	return 0
}

// newWorker builds the worker.
func newWorker(ctx context.Context, settings settings.Runner, out io.Writer, log *slog.Logger) (*worker, error) {
	if err := prepareEnvironment(settings); err != nil {
		return nil, err
	}
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return nil, err
	}
	who, err := who(settings.Launch)
	if err != nil {
		return nil, err
	}
	parallel := settings.Parallel
	if parallel < 1 {
		parallel = max(2, runtime.GOMAXPROCS(0))
	}
	client := s3.NewFromConfig(cfg)
	providers, err := shareProviders(client, settings, log)
	if err != nil {
		return nil, err
	}
	name, self := identity(ctx, log)
	store := summary.Keep(dynamo.New(cfg, settings.Table))
	traces, _ := otlp.FromEnviron(buildinfo.Version, log)
	terraform := &terraformDriver{
		Options: tfdriver.Options{
			Orphaned: tfdriver.Locks{Store: store, Log: log}.Orphaned, Keep: unsavedStates{client, settings.Bundle}.keep,
			Assume: roles{cfg}.assume, ReadS3: states{client}.read,
			Log: log, Parallel: parallel, Shared: providers.shared,
		},
		aws: secrets.New(cfg), hidden: inFiles(settings),
	}
	w := &worker{
		runner: &runner.Runner{
			Store: store, Logs: runlog.Bucket{Client: client, Location: settings.Logs},
			Owner: name, ID: self.ID(), Who: who, Environ: terraformcli.Environ, Verify: verify.Run, Spans: spans.To(traces.Export()), Now: time.Now, Log: log,
		},
		bundle:    (&bundle.Unpacked{Bucket: &bundle.Bucket{Client: client, Location: settings.Bundle}, Dir: filepath.Join(settings.Work, "bundle")}).Load,
		connect:   func(cfg config.Consul) (runner.Consul, error) { return consul.New(cfg) },
		driver:    terraform.prepare,
		providers: providers,
		parallel:  parallel,
		metrics:   metrics.New(out, settings.Stack),
		traces:    traces,
		log:       log,
	}
	if self.TaskDefinition != "" {
		w.lingering = &linger.Runner{Store: w.runner.Store, ID: self.ID(), Definition: self.TaskDefinition, Now: time.Now, Log: log}
	}
	if settings.ReconcileFunction != "" {
		w.proceed = function.Function{Client: lambda.NewFromConfig(cfg), Name: settings.ReconcileFunction}.Tick
	}
	return w, nil
}

// identity returns the name for this container's claims, which contains the id of its ECS task for
// people, and that task. The task is empty if this is none or ECS does not answer.
func identity(ctx context.Context, log *slog.Logger) (name string, self ecstask.Task) {
	name = lease.NewOwner()
	endpoint := os.Getenv("ECS_CONTAINER_METADATA_URI_V4")
	if endpoint == "" {
		return name, self // started by hand
	}
	self, err := ecstask.Current(ctx, endpoint)
	if err != nil {
		log.Warn("cannot read the metadata of ECS: if this container dies, its runs count as lost only when their claims expire", "error", err)
		return name, self
	}
	return name + "-" + self.ID(), self
}
