package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/apiclient"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// requestsAtOnce is how many runs are requested and followed side by side.
const requestsAtOnce = 16

// announceLeader records how this instance is reached while it leads, for
// once-mode beside it. It only logs what goes wrong: once-mode then waits.
func (e *engine) announceLeader(ctx context.Context, cfg *config.Config, at net.Addr, log *slog.Logger) {
	rec, err := state.Read[state.Leader](ctx, e.store, state.LeaderKey)
	if corrupt := (*state.CorruptError)(nil); errors.As(err, &corrupt) {
		rec.Record, err = corrupt.Record, nil
	}
	if err == nil {
		_, err = e.store.Apply(ctx, rec.Write(leaderAt(e.reconciler.Owner, cfg, at)))
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot record the address of the HTTP API: start -once beside this instance waits for its lease", "error", err)
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

// elsewhere has the instance that leads run the tasks, where its API answers.
func (c *startCommand) elsewhere(e *engine, cfg *config.Config, address string, log *slog.Logger) func(context.Context, string, []*config.Task) ([]reconcile.Outcome, error) {
	return func(ctx context.Context, leader string, tasks []*config.Task) ([]reconcile.Outcome, error) {
		client, at, err := c.leaderClient(ctx, e, cfg, address, leader)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", reconcile.ErrNotReached, err)
		}
		log.Info("another instance leads on this store: it is requested to run the tasks", "leader", leader, "address", at)
		outcomes := make([]reconcile.Outcome, len(tasks))
		var group errgroup.Group
		group.SetLimit(requestsAtOnce)
		for i, t := range tasks {
			outcomes[i] = reconcile.Outcome{Task: t.Name, Reason: state.Reason{Code: state.ReasonDisabled, Text: "the task is disabled"}}
			if !t.Enabled {
				continue
			}
			group.Go(func() error {
				outcomes[i] = requested(ctx, client, t.Name, c.saysWhy(t.Name))
				return nil
			})
		}
		_ = group.Wait() // the outcomes hold what went wrong
		return outcomes, ctx.Err()
	}
}

// requested is what came of the run of a task that another instance carries out.
func requested(ctx context.Context, client *apiclient.Client, task string, waits func(string)) reconcile.Outcome {
	after, err := client.RunTask(ctx, task)
	if err != nil {
		return reconcile.Outcome{Task: task, Err: fmt.Errorf("request a run of the instance that leads: %w", err)}
	}
	run, err := client.AwaitRun(ctx, task, after, waits)
	if err != nil {
		return reconcile.Outcome{Task: task, Err: fmt.Errorf("wait for the run in the instance that leads, where it may go on: %w", err)}
	}
	return outcomesOf(run)[0]
}

// leaderClient returns a client of the API of the instance that leads on the
// store, and its address.
func (c *startCommand) leaderClient(ctx context.Context, e *engine, cfg *config.Config, address, leader string) (*apiclient.Client, string, error) {
	if address == "" {
		rec, err := state.Read[state.Leader](ctx, e.store, state.LeaderKey)
		if err != nil {
			return nil, "", fmt.Errorf("read its address: %w", err)
		}
		if rec.Data.Owner != leader {
			return nil, "", errors.New("it has recorded no address")
		}
		address = rec.Data.Remote
		if host, err := os.Hostname(); err == nil && host == rec.Data.Host {
			address = rec.Data.Local
		}
	}
	var flags apiFlags // what the environment says
	f := newFlags("start")
	flags.register(f)
	err := f.Parse([]string{"-http-addr", address})
	if err != nil {
		return nil, "", err
	}
	own, err := flags.token(map[string]bool{})
	if err == nil && own == "" && cfg.API.Token.Set() {
		if own, err = ownToken(ctx, e, cfg); err == nil {
			err = f.Set("token", own)
		}
	}
	if err != nil {
		return nil, "", err
	}
	client, err := flags.client()
	if err != nil {
		return nil, "", err
	}
	led, err := client.Leader(ctx)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("use its HTTP API at %s: %w", address, err)
	case led != leader:
		return nil, "", fmt.Errorf("the instance at %s knows %s as the leader, not %s: does it use another store?", address, cmp.Or(led, "nobody"), leader)
	}
	return client, address, nil
}

// ownToken is the token of the API that the task files configure.
func ownToken(ctx context.Context, e *engine, cfg *config.Config) (string, error) {
	if cfg.API.Token.File != "" {
		flags := apiFlags{tokenFile: cfg.API.Token.File}
		return flags.token(map[string]bool{"token-file": true})
	}
	t, err := token(ctx, e, cfg, cfg.API.Token)
	return t.Value, err
}
