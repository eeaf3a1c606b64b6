package main

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/cluster"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/registration"
	"github.com/terrapulse/terrapulse/internal/serve"
)

// listen takes the port of the HTTP API. Clients wait until it is served.
func (c *startCommand) listen(o *startOptions, e *engine, member *cluster.Member, cfg *config.Config, log *slog.Logger) (*serve.Server, error) {
	options := api.Options{Control: e.control(), Began: time.Now(), Log: log}
	if member != nil {
		options.Cluster = instances{member}
	}
	server, err := serve.Listen(c.ctx, serve.Options{
		Port: cfg.Port, TLS: cfg.TLS, AllowOrigin: o.allowOrigin, Log: log,
		Handler: api.New(options),
	})
	if err != nil {
		return nil, err
	}
	log.Info("serving the HTTP API", "address", server.Addr().String(), "tls", cfg.TLS.Enabled)
	return server, nil
}

// register keeps this instance registered in Consul until the context ends,
// where the configuration says so, as listening at the address. It returns a
// function that waits until the registration is taken back.
func (c *startCommand) register(ctx context.Context, e *engine, cfg *config.Config, at net.Addr, log *slog.Logger) (wait func(), err error) {
	if !cfg.Consul.ServiceRegistration.Enabled {
		return func() {}, nil
	}
	client, err := e.consul.API()
	if err != nil {
		return nil, err
	}
	served := *cfg
	if tcp, ok := at.(*net.TCPAddr); ok {
		served.Port = tcp.Port // also where any that is free was asked for
	}
	registration := registration.New(client, registration.Service(&served), log)
	var work sync.WaitGroup
	work.Go(func() { registration.Run(ctx) })
	return work.Wait, nil
}
