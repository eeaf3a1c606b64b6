// Package nomad starts the runners of launches as Nomad jobs: for each launch it dispatches a
// parameterized job, whose program is `terrapulse runner`.
package nomad

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// metaLaunch is the meta of a dispatched job that names its launch.
const metaLaunch = "launch"

// launchesAtOnce is how many launches one list of jobs is about: their ids are in its URL.
const launchesAtOnce = 40

// Launcher dispatches a job for each launch. It keeps nothing in memory: it reports what Nomad
// reports. It is safe for concurrent use.
type Launcher struct {
	client  *client
	maxJobs int // no plan begins while there are so many jobs
	log     *slog.Logger
}

var _ reconcile.Launcher = (*Launcher)(nil)

// New returns a launcher for a nomad block. It sends no request.
func New(cfg config.Nomad, log *slog.Logger) (*Launcher, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Launcher{c, cfg.MaxLaunches, log}, nil
}

// Start dispatches the job for a launch. The launch's id is the idempotency token: a repeated
// request, after a lost answer or from another leader, dispatches no second job until Nomad has
// removed the first, hours after its end. (Two requests at the very same time may dispatch two; only
// one of them can claim a run.) Package fault classifies its errors.
func (l *Launcher) Start(ctx context.Context, launch state.Launch) error {
	act := "dispatch Nomad job " + l.client.Job
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var out struct{ DispatchedJobID string }
	in := map[string]any{"Meta": map[string]string{metaLaunch: launch.ID}}
	_, err := l.client.call(ctx, http.MethodPut, "job/"+url.PathEscape(l.client.Job)+"/dispatch", url.Values{"idempotency_token": {launch.ID}}, in, &out)
	if err == nil && out.DispatchedJobID == "" {
		err = fmt.Errorf("the answer of %s names no dispatched job", l.client.Address)
	}
	if err != nil {
		return l.client.classify(act, err)
	}
	l.log.Debug("dispatched a Nomad job", "launch", launch.ID, "job", out.DispatchedJobID)
	return nil
}

// Admits implements reconcile.Bounded. Nomad does not show which jobs make plans, so all count.
func (l *Launcher) Admits(ctx context.Context, _ string, plans int) (launches int, err error) {
	jobs, _, err := l.undead(ctx, "", 0)
	if err != nil {
		return 0, err
	}
	free := l.maxJobs - len(jobs)
	return free, reconcile.Fit(plans, free*reconcile.MaxPlans, fmt.Sprintf(
		"Nomad has %d jobs of runs and plans: try again when some have ended, name fewer tasks, or raise max_launches (%d)", len(jobs), l.maxJobs))
}

// Reach asks Nomad for the job that is dispatched, and says what has answered.
func (l *Launcher) Reach(ctx context.Context) (string, error) {
	act := "read Nomad job " + l.client.Job
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var job struct {
		ParameterizedJob *struct{}
		Stop             bool
	}
	_, err := l.client.call(ctx, http.MethodGet, "job/"+url.PathEscape(l.client.Job), url.Values{}, nil, &job)
	switch {
	case err != nil:
		return "", l.client.classify(act, err)
	case job.ParameterizedJob == nil:
		return "", fmt.Errorf("%s: it is not parameterized, so it cannot be dispatched: %s", act, docs.Page("nomad.md"))
	case job.Stop:
		return "", fmt.Errorf("%s: it is stopped: run it again with `nomad job run`", act)
	}
	return fmt.Sprintf("%s answers, and has the job %s", l.client.Address, l.client.Job), nil
}

// Status reports the state of launches by their jobs in Nomad. A launch whose job Nomad has removed
// is unknown, and one whose client Nomad does not see: its runner may still work and renew its
// claims, which then show whether it does.
//
// It needs one request for every 40 launches, and one or two more for each job that does not run
// normally.
func (l *Launcher) Status(ctx context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	all := map[string][]found{}
	for chunk := range slices.Chunk(ids, launchesAtOnce) {
		terms := make([]string, len(chunk))
		for i, id := range chunk {
			terms[i] = "Meta." + metaLaunch + " == " + strconv.Quote(id)
		}
		jobs, _, err := l.list(ctx, url.Values{"meta": {"true"}, "filter": {strings.Join(terms, " or ")}})
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			f, err := l.judge(ctx, j)
			if err != nil {
				return nil, err
			}
			all[j.Meta[metaLaunch]] = append(all[j.Meta[metaLaunch]], f)
		}
	}
	statuses := map[string]reconcile.LaunchStatus{}
	for id, jobs := range all {
		if status, known := summed(jobs); known {
			statuses[id] = status
		}
	}
	return statuses, nil
}

// found is the state of one job. Its status is the zero value if it is not known whether the job's
// runner is alive.
type found struct {
	reconcile.LaunchStatus
	submitted int64
}

// summed returns the status of a launch by its jobs: one, as a rule. It runs if any of its jobs
// does, and has stopped if all have.
func summed(jobs []found) (status reconcile.LaunchStatus, known bool) {
	rank := func(f found) int {
		switch {
		case f.Running && f.Blocked == "":
			return 0
		case f.Running:
			return 1
		case f.Stopped == "":
			return 2
		}
		return 3
	}
	first := slices.MinFunc(jobs, func(a, b found) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.submitted, a.submitted))
	})
	return first.LaunchStatus, rank(first) != 2
}

// judge finds out whether the runner of a job is alive. The state of the job alone does not say it:
// a job that somebody has stopped is dead while its runner still interrupts Terraform.
func (l *Launcher) judge(ctx context.Context, j job) (found, error) {
	f := found{submitted: j.SubmitTime}
	if n := j.count(); j.Status == statusRunning && n.Running+n.Starting > 0 && n.Lost+n.Unknown == 0 {
		f.Running = true
		return f, nil
	}
	allocations, err := l.allocations(ctx, j.ID)
	if err != nil {
		return f, err
	}
	var alive, unseen, ended []allocation
	for _, a := range allocations {
		switch a.ClientStatus {
		case "complete", "failed":
			ended = append(ended, a)
		case "lost", "unknown":
			unseen = append(unseen, a)
		default: // pending, running
			alive = append(alive, a)
		}
	}
	switch dead := j.Status == statusDead; {
	case len(alive) > 0:
		f.Running = len(unseen) == 0
	case dead && len(unseen) > 0: // what it has claimed may still be worked on, what it has not is left
		f.Stopped, f.Runner = unseen[0].unseen(j), "unseen: "+j.ID
	case dead:
		f.Stopped, f.Runner = j.why(ended), j.ID
	case len(ended)+len(unseen) > 0: // Nomad is about to replace them
	default:
		f.Running = true
		f.Blocked, err = l.blocked(ctx, j.ID)
	}
	return f, err
}
