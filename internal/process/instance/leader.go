package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// requestsAtOnce is how many runs are requested at the same time.
const requestsAtOnce = 16

// announceLeader records the address of this instance's API while it leads: for
// once-mode, which requests runs there. It only logs an error: once-mode then
// waits for the lease.
func (i *Instance) announceLeader(ctx context.Context, cfg *config.Config, at net.Addr) {
	rec, err := state.Read[state.Leader](ctx, i.store, state.LeaderKey)
	if corrupt := (*state.CorruptError)(nil); errors.As(err, &corrupt) {
		rec.Record, err = corrupt.Record, nil
	}
	if err == nil {
		_, err = i.store.Apply(ctx, rec.Write(leaderAt(i.Reconciler.Owner, cfg, at)))
	}
	if err != nil && ctx.Err() == nil {
		i.Log.Warn("cannot record the address of the HTTP API: start -once beside this instance waits for its lease", "error", err)
	}
}

func leaderAt(owner string, cfg *config.Config, at net.Addr) state.Leader {
	scheme := "http://"
	if cfg.TLS.Enabled {
		scheme = "https://"
	}
	l := state.Leader{Owner: owner}
	l.Host, _ = os.Hostname()
	local, remote := "localhost", l.Host
	port := strconv.Itoa(cfg.Port)
	if tcp, ok := at.(*net.TCPAddr); ok {
		port = strconv.Itoa(tcp.Port)
		if !tcp.IP.IsUnspecified() && !tcp.IP.IsLoopback() {
			local, remote = tcp.IP.String(), tcp.IP.String()
		}
	}
	if cfg.HighAvailability != nil && cfg.HighAvailability.Instance.Address != "" {
		remote = cfg.HighAvailability.Instance.Address
	}
	l.Local, l.Remote = scheme+net.JoinHostPort(local, port), scheme+net.JoinHostPort(remote, port)
	return l
}

// Leader requests runs from the instance that leads on the same store.
type Leader struct {
	*Instance
	Address string // of its API; "" is the address that it has recorded
	// API returns the options for the API at an address. If they have no token, the
	// configured one is used.
	API func(address string) (apiclient.Options, error)
	// Waits returns a function that is called with the reason why a task's run has
	// not begun.
	Waits func(task string) func(reason string)
}

// Run has the leader run the enabled tasks that no person has stopped: it is for
// reconcile.Reconciler.Elsewhere.
func (l *Leader) Run(ctx context.Context, leader string, cfg *config.Config) ([]reconcile.Outcome, error) {
	client, err := l.client(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reconcile.ErrNotReached, err)
	}
	overview, err := client.Overview(ctx, selection.Selection{Brief: true})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reconcile.ErrNotReached, err)
	}
	stopped := map[string]reconcile.Outcome{}
	for _, t := range overview.Tasks {
		if o := outcomeOfRest(t); o.Stopped() {
			stopped[t.Name] = o
		}
	}
	outcomes := make([]reconcile.Outcome, len(cfg.Tasks))
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	for i, t := range cfg.Tasks {
		outcomes[i] = reconcile.Outcome{Task: t.Name, Reason: state.Reason{Code: state.ReasonDisabled, Text: "the task is disabled"}}
		if !t.Enabled {
			continue
		}
		if o, ok := stopped[t.Name]; ok {
			outcomes[i] = o
			continue
		}
		group.Go(func() error {
			outcomes[i] = requested(ctx, client, t.Name, l.Waits(t.Name))
			return nil
		})
	}
	_ = group.Wait() // the outcomes hold the errors
	return outcomes, ctx.Err()
}

// requested requests a run of the leader and returns its outcome.
func requested(ctx context.Context, client *apiclient.Client, task string, waits func(string)) reconcile.Outcome {
	after, err := client.RunTask(ctx, task)
	if err != nil {
		return reconcile.Outcome{Task: task, Err: fmt.Errorf("request a run of the instance that leads: %w", err)}
	}
	run, err := client.AwaitRun(ctx, task, after, waits)
	if held := (*apiclient.WaitsError)(nil); errors.As(err, &held) {
		return OutcomeOfWait(held)
	}
	if err != nil {
		return reconcile.Outcome{Task: task, Err: fmt.Errorf("wait for the run in the instance that leads, where it may go on: %w", err)}
	}
	return OutcomeOf(run)
}

// client returns a client of the leader's API.
func (l *Leader) client(ctx context.Context, leader string) (*apiclient.Client, error) {
	address := l.Address
	if address == "" {
		var err error
		if address, err = l.recorded(ctx, leader); err != nil {
			return nil, err
		}
	}
	opts, err := l.API(address)
	if cfg := l.base.Load(); err == nil && opts.Token == "" && cfg.API.Token.Set() {
		opts.Token, err = l.ownToken(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	client, err := apiclient.New(opts)
	if err != nil {
		return nil, err
	}
	led, err := client.Leader(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("use its HTTP API at %s: %w", opts.Address, err)
	case led != leader:
		return nil, fmt.Errorf("the instance at %s says that %s leads, not %s: does it use another store?", opts.Address, cmp.Or(led, "nobody"), leader)
	}
	if v, err := client.Version(ctx); err == nil && !v.MayAct {
		return nil, fmt.Errorf("use its HTTP API at %s: it lets this machine only read: set api.token or tls.verify_incoming there and here", opts.Address)
	}
	l.Log.Info("another instance leads on this store: it is requested to run the tasks", "leader", leader, "address", opts.Address)
	return client, nil
}

// recorded returns the address that the leader has recorded in the store.
func (l *Leader) recorded(ctx context.Context, leader string) (string, error) {
	rec, err := state.Read[state.Leader](ctx, l.store, state.LeaderKey)
	if err != nil {
		return "", fmt.Errorf("read its address: %w", err)
	}
	if rec.Data.Owner != leader {
		return "", errors.New("it has recorded no address")
	}
	if host, err := os.Hostname(); err == nil && host == rec.Data.Host {
		return rec.Data.Local, nil
	}
	return rec.Data.Remote, nil
}

// ownToken returns the API's token as the task files configure it.
func (i *Instance) ownToken(ctx context.Context, cfg *config.Config) (string, error) {
	if file := cfg.API.Token.File; file != "" {
		return apiclient.TokenFile(file)
	}
	t, err := i.token(ctx, cfg, cfg.API.Token)
	return t.Value, err
}

// OutcomeOf returns a run of the API as an outcome.
func OutcomeOf(run apispec.Run) reconcile.Outcome {
	r := &state.Run{ID: run.ID, Task: run.Task, Kind: state.Kind(run.Kind), State: state.RunState(run.State), Created: run.Created,
		Times: state.Times{Started: apispec.Deref(run.Started), Ended: apispec.Deref(run.Ended)}, Work: state.Work{Error: apispec.Deref(run.Error)}, Waits: state.Waits{Waited: time.Duration(apispec.Deref(run.Waited) * float64(time.Second))}}
	r.Changes, r.Verification = apiview.ChangesOf(run.Changes), apiview.VerificationOf(run.Verification)
	if w := run.Wait; w != nil && run.Ended == nil {
		r.Wait = &state.Wait{For: state.WaitFor(w.For), ID: w.ID, Text: apispec.Deref(w.Text), Since: w.Since, Until: apispec.Deref(w.Until)}
		for _, c := range apispec.Deref(w.Causes) {
			r.Wait.Causes = append(r.Wait.Causes, state.Cause{Rule: state.Rule(c.Rule), Text: c.Text})
		}
	}
	return reconcile.Outcome{Task: run.Task, Run: r, Reason: state.Reason{Code: run.Reason.Code, Text: run.Reason.Text}}
}

// OutcomeOfWait returns a task whose run does not begin as an outcome.
func OutcomeOfWait(held *apiclient.WaitsError) reconcile.Outcome { return outcomeOfRest(held.Task) }

// outcomeOfRest returns a task that has no run as an outcome.
func outcomeOfRest(t apispec.TaskOverview) reconcile.Outcome {
	return reconcile.Outcome{Task: t.Name, Reason: state.Reason{Code: t.Reason.Code, Text: t.Reason.Text}}
}
