package instance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/memory"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/reload"
	"github.com/terrapulse/terrapulse/internal/state"
)

// RunOptions are the settings of Run.
type RunOptions struct {
	Files  *reload.Watcher                // says when the task files change
	Read   func() (*config.Config, error) // reads them
	ReadAt time.Time                      // when they were read for New
	Store  string                         // URL, as in Options
	// AllowOrigin lets web pages of this origin use the API.
	AllowOrigin string
}

// Run runs tasks when Consul changes and serves the API until the context ends.
// Then it waits for the runs that are under way.
func (i *Instance) Run(ctx context.Context, o RunOptions) error {
	cfg := i.base.Load()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	member, left := i.join(ctx, cfg)
	server, err := i.listen(ctx, member, cfg, o.AllowOrigin)
	if err != nil {
		return err
	}
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
				i.log.Error("a task must be run by hand", "task", run.Task, "run", run.ID, "error", err)
			}
		})
	}
	reloads := make(chan reconcile.Reload)
	go i.reload(ctx, o, reloads)
	loop := &reconcile.Loop{Reconciler: i.Reconciler, Ended: i.Launcher.Ended(), Asked: i.asked, Reload: reloads, Observer: i.metrics,
		Watch: func(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
			return i.consul.Watch(ctx, gates, since)
		}}
	loop.Leads = func(ctx context.Context, fence uint64) {
		if member != nil {
			member.Leads(ctx, fence)
		}
		i.announceLeader(ctx, cfg, server.Addr())
	}
	err = loop.Run(ctx)
	stop()
	i.log.Info("stopping, waiting for Terraform where it runs")
	i.Launcher.Wait()
	background.Wait()
	i.Reconciler.DeliverRest(context.WithoutCancel(ctx))
	withdrawn()
	left()
	if err = errors.Join(err, <-served); err == nil {
		i.log.Info("stopped")
	}
	return err
}
