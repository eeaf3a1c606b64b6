package main

import (
	"cmp"
	"errors"
	"os"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/process/instance"
)

// runnerCommand executes one launch of a cluster's leader.
func (a *app) runnerCommand() command {
	f, o := newFlags("runner"), new(startOptions)
	launch := ""
	o.config.register(f)
	o.log.register(f)
	parallelFlag(f, &o.parallel, "run")
	f.StringVar(&launch, "launch", "", "The `id` of the launch. Default: the meta launch of the Nomad job.")
	return command{flags: f, synopsis: "Execute one launch, as the program of a Nomad job",
		examples: []string{"-config-dir /etc/terrapulse -launch ${NOMAD_META_launch}"},
		codes:    []int{exitOK, exitError, exitInterrupted, exitMissing, exitFlags, exitConfig, exitTerraform},
		help: `Usage: terrapulse runner [flags]

  Executes the runs of one launch and ends. The leader of a cluster with a
  nomad block dispatches a parameterized Nomad job for each launch; this is the
  program of that job. It needs the same task files and modules as the
  instances of the cluster.

  The exit code is 0 if every run has an outcome, also if Terraform failed.
  When the job is stopped, Terraform is interrupted and saves its state.
`,
		run: func([]string) int { return a.runLaunch(o, launch) },
	}
}

func (a *app) runLaunch(o *startOptions, launch string) int {
	launch = cmp.Or(launch, os.Getenv("NOMAD_META_launch"))
	if launch == "" {
		return a.fail(exitMissing, errors.New("no launch: Nomad sets it as NOMAD_META_launch in a job that was dispatched with the meta launch; name it with -launch"))
	}
	cfg, log, code := o.load(a)
	if code >= 0 {
		return code
	}
	defer o.flush()
	if cfg.HighAvailability == nil {
		return a.fail(exitConfig, errors.New("the task files have no high_availability block: the runner of a launch uses the store of a cluster"))
	}
	err := instance.RunLaunch(a.ctx, cfg, instance.Options{Version: buildinfo.Version, Parallel: o.parallel, Log: log}, launch, os.Getenv("NOMAD_JOB_ID"))
	code = exitError
	if errors.Is(err, instance.ErrTerraform) {
		code = exitTerraform
	}
	return max(a.fail(code, err), exitOK)
}
