package instance

import (
	"context"
	"errors"
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/memory"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Run runs tasks when Consul changes and serves the API until the context ends.
// Then it waits for the runs that are under way.
func (i *Instance) Run(ctx context.Context) error {
	cfg := i.base.Load()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	member, left := i.join(ctx, cfg)
	server, err := i.listen(ctx, member, cfg)
	if err != nil {
		return err
	}
	i.noteStore(cfg) // not earlier: a process that cannot listen ends, and another one may use this working_dir
	served := make(chan error, 1)
	go func() {
		defer stop() // without its API it ends
		served <- server.Serve(ctx)
	}()
	withdrawn := i.register(ctx, cfg, server.Addr())
	go memory.Release(ctx, i.Launcher.Busy)
	var background sync.WaitGroup
	i.runner.Background = func(run state.Run, work func(context.Context) error) {
		background.Go(func() {
			if err := work(ctx); err != nil {
				i.Log.Error("a run that was given up has applied changes: run its task once with `terrapulse run`", "task", run.Task, "run", run.ID, "error", err)
			}
		})
	}
	unshare := i.share(ctx, member)
	reloads := make(chan reconcile.Reload)
	go i.reload(ctx, reloads)
	loop := &reconcile.Loop{Reconciler: i.Reconciler, Ended: i.ended(), Asked: i.asked, Reload: reloads, Observer: i.metrics,
		Watch: func(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
			return i.consul.Watch(ctx, gates, since)
		}}
	loop.Leads = func(ctx context.Context, fence uint64) {
		if member != nil {
			member.Leads(ctx, fence)
		}
		i.announceLeader(ctx, cfg, server.Addr())
		i.watchJobs(ctx)
	}
	err = loop.Run(ctx)
	stop()
	i.Log.Info("stopping, waiting for Terraform where it runs")
	i.Launcher.Close()
	i.Launcher.Wait()
	unshare()
	background.Wait()
	i.Reconciler.DeliverRest(context.WithoutCancel(ctx))
	withdrawn()
	left()
	if err = errors.Join(err, <-served); err == nil {
		i.Log.Info("stopped")
	}
	return err
}
