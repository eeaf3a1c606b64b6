package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/program"
	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Applied is what is to be verified.
type Applied struct {
	Task, Run string
	Dir       string   // relative paths of programs and files are relative to it
	Env       []string // of programs, and for headers: without credentials of Terrapulse
}

// Run carries out the verifications, all at the same time, without those of Terraform's check blocks.
// The results have the order of the verifications. When ctx ends, they are interrupted.
func Run(ctx context.Context, all []Spec, applied Applied) []state.Verified {
	var own []Spec
	for _, s := range Active(all) {
		if !s.Terraform {
			own = append(own, s)
		}
	}
	results := make([]state.Verified, len(own))
	secrets := redact.New(nil, redact.Environment(applied.Env)...)
	var wait sync.WaitGroup
	for i, s := range own {
		wait.Go(func() { results[i] = s.run(ctx, applied, secrets.Clean) })
	}
	wait.Wait()
	return results
}

// Requests is Run for functions in AWS, which have no programs: a verification by a program fails.
func Requests(ctx context.Context, all []Spec, applied Applied) []state.Verified {
	var requests []Spec
	var failed []state.Verified
	for _, s := range Active(all) {
		if len(s.Command) == 0 {
			requests = append(requests, s)
			continue
		}
		failed = append(failed, state.Verified{Name: s.Name, State: state.VerifyFailed, Holds: s.OnFailure == Hold,
			Detail: "a function in AWS has carried out the run, as with driver terraform-cloud, and functions run no programs: use an http block"})
	}
	return append(Run(ctx, requests, applied), failed...)
}

var (
	errWithin  = errors.New("no time left")
	errTimeout = errors.New("timeout")
)

// run tries until an attempt passes or the time is up.
func (s Spec) run(ctx context.Context, applied Applied, clean func(string) string) (r state.Verified) {
	start := time.Now()
	r = state.Verified{Name: s.Name, State: state.VerifyPassed, Holds: s.OnFailure == Hold}
	defer func() { r.Took = time.Since(start).Round(time.Millisecond) }()
	attempt, end, err := s.prepare(applied)
	if err != nil {
		r.State, r.Detail = state.VerifyFailed, clean(err.Error())
		return r
	}
	defer end()
	limited, cancel := context.WithTimeoutCause(ctx, s.Within, errWithin)
	defer cancel()
	for {
		r.Attempts++
		err := s.try(limited, attempt)
		switch late := limited.Err() != nil; {
		case err == nil:
			r.Detail = ""
			return r
		case !late || r.Detail == "": // an attempt that was cut off says less than an earlier one
			r.Detail = clean(err.Error())
		}
		if !delay.For(limited, s.Every) {
			break
		}
	}
	r.State = state.VerifyFailed
	if ctx.Err() != nil {
		r.State = state.VerifyInterrupted
		r.Detail = fmt.Sprintf("stopped after %s: %s", time.Since(start).Round(time.Second), context.Cause(ctx))
	}
	return r
}

// try makes one attempt.
func (s Spec) try(ctx context.Context, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, errTimeout)
	defer cancel()
	err := attempt(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(cause, errTimeout):
		return fmt.Errorf("no result within %s", s.Timeout)
	case errors.Is(cause, errWithin):
		return fmt.Errorf("no result within %s", s.Within)
	}
	return err
}

// prepare returns how an attempt is made.
func (s Spec) prepare(applied Applied) (attempt func(context.Context) error, end func(), err error) {
	if s.HTTP != nil {
		client, err := s.HTTP.client(applied.Dir)
		if err != nil {
			return nil, nil, err
		}
		header, err := s.HTTP.header(applied.Env)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) error { return s.HTTP.request(ctx, client, header) },
			client.Transport.(*http.Transport).CloseIdleConnections, nil
	}
	env := append(applied.Env[:len(applied.Env):len(applied.Env)],
		"TERRAPULSE_TASK="+applied.Task, "TERRAPULSE_RUN="+applied.Run, "TERRAPULSE_VERIFY="+s.Name)
	p := program.Program{Command: s.Command, Dir: applied.Dir, Env: env}
	return func(ctx context.Context) error { return execute(ctx, p) }, func() {}, nil
}

// execute runs a program once.
func execute(ctx context.Context, p program.Program) error {
	output, err := p.Run(ctx)
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no program %s on PATH: install it where runs are carried out", p.Command[0])
	case !errors.As(err, &exit):
		return fmt.Errorf("%s cannot be run: %w", p.Command[0], err)
	}
	text := fmt.Sprintf("%s ended with exit code %d", p.Command[0], exit.ExitCode())
	if !exit.Exited() {
		text = fmt.Sprintf("%s was ended: %s", p.Command[0], exit)
	}
	if shown := program.Line(output); shown != "" {
		text += ": " + shown
	}
	return errors.New(text)
}
