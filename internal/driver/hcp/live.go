package hcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// liveEvery is how often the output of a run is read while people follow it.
	liveEvery = 3 * time.Second
	// liveKept is how long the output is kept after the last call of Output.
	liveKept = 10 * time.Minute
)

// live is the output of runs that people follow. It has one entry for each wait of a run.
type live struct {
	mu    sync.Mutex
	waits map[string]*liveOutput
}

type liveOutput struct {
	mu    sync.Mutex // held during a read: concurrent callers share its result
	scrub *redact.Scrubber
	text  string
	err   error
	at    time.Time // of the last read
	asked time.Time // of the last call of Output; guarded by live.mu
}

// of returns the entry of a wait.
func (l *live) of(wait string, now time.Time) *liveOutput {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits == nil {
		l.waits = map[string]*liveOutput{}
	}
	for id, o := range l.waits {
		if now.Sub(o.asked) > liveKept {
			delete(l.waits, id)
		}
	}
	o := l.waits[wait]
	if o == nil {
		o = new(liveOutput)
		l.waits[wait] = o
	}
	o.asked = now
	return o
}

// Output returns what HCP Terraform has printed of the plan or the apply that a run waits
// for, in whole lines and without secrets. What the run printed before its wait precedes
// it, and the next step of the run copies it.
func (d *Driver) Output(ctx context.Context, cfg *config.Config, run state.Run) (string, error) {
	if !run.GoesOnRemotely() {
		return "", nil
	}
	o := d.live.of(run.ID+"/"+run.Wait.ID, d.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := d.Now(); o.at.IsZero() || now.Sub(o.at) >= liveEvery {
		text, err := d.output(ctx, cfg, run, o)
		if ctx.Err() != nil {
			return "", ctx.Err() // the caller is gone: others may still want the output
		}
		if o.at, o.err = now, err; err == nil {
			o.text = text
		}
	}
	return o.text, o.err
}

func (d *Driver) output(ctx context.Context, cfg *config.Config, run state.Run, o *liveOutput) (string, error) {
	if o.scrub == nil {
		task, ok := cfg.Task(run.Task)
		if !ok {
			return "", fmt.Errorf("task %s is not in the configuration any more", run.Task)
		}
		s := &step{Driver: d, cloud: cfg.Cloud(), job: driver.Job{Config: cfg, Task: task, Run: run}}
		if cfg.Cloud() == nil {
			return "", errNoCloud
		}
		if err := s.evaluate(ctx); err != nil {
			return "", err
		}
		o.scrub = s.scrub
	}
	api, err := d.api(ctx, cfg)
	if err != nil {
		return "", err
	}
	now, err := api.Run(ctx, run.Remote.ID)
	if err != nil {
		return "", fmt.Errorf("read the run %s: %w", run.Remote.ID, err)
	}
	phase := now.Plan
	if run.Wait.For == state.WaitRemote {
		phase = now.Apply
	}
	text, err := readLog(ctx, api, phase)
	if err != nil {
		return "", fmt.Errorf("read the output of %s: %w", run.Remote.ID, err)
	}
	text = strings.TrimRight(text[:strings.LastIndexByte(text, '\n')+1], "\n")
	if text == "" {
		return "", nil
	}
	return o.scrub.Clean(text) + "\n", nil // as copyLog copies it
}
