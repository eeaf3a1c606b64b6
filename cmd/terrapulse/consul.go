package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// connect returns a client of the configured Consul, which answers.
func (a *app) connect(cfg *config.Config) (*consul.Client, int) {
	client, err := instance.Connect(a.ctx, cfg, true)
	return client, a.unready(exitConfig, err)
}

// unready is fail for an error of the set-up. If the program was stopped, it only
// says so.
func (a *app) unready(code int, err error) int {
	if err == nil || a.ctx.Err() == nil {
		return a.fail(code, err)
	}
	fmt.Fprintln(a.stderr, "stopped before anything was run")
	return exitError
}
