package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/api"
	"github.com/terrapulse/terrapulse/internal/cluster"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/registration"
	"github.com/terrapulse/terrapulse/internal/serve"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// listen takes the port of the HTTP API. Clients wait until it is served.
func (c *startCommand) listen(o *startOptions, e *engine, member *cluster.Member, cfg *config.Config, log *slog.Logger) (*serve.Server, error) {
	options := api.Options{Control: e.control(), Began: time.Now(), Sensitive: terraform.SensitiveVariables, Log: log, Version: version, Metrics: e.metrics.Handler()}
	if member != nil {
		options.Cluster = instances{member}
	}
	served := serve.Options{
		Address: cfg.API.BindAddress, Port: cfg.Port, Hosts: serve.Hosts(cfg), Public: api.HealthPath,
		TLS: cfg.TLS, AllowOrigin: o.allowOrigin, Log: log, Handler: api.New(options),
	}
	var err error
	if served.Token, err = token(c.ctx, e, cfg, cfg.API.Token); err != nil {
		return nil, err
	}
	if served.ReadToken, err = token(c.ctx, e, cfg, cfg.API.ReadToken); err != nil {
		return nil, err
	}
	server, err := serve.Listen(c.ctx, served)
	if err != nil {
		return nil, err
	}
	log.Info("serving the HTTP API", "address", server.Addr().String(), "tls", cfg.TLS.Enabled, "token", cfg.API.Token.Set())
	if !cfg.API.Token.Set() && !cfg.TLS.VerifyIncoming && !cfg.API.Loopback() {
		log.Warn("anyone who can reach the HTTP API can run programs on this host: set api.token, tls.verify_incoming, or api.bind_address to 127.0.0.1",
			"address", server.Addr().String())
	}
	return server, nil
}

// token returns a configured token of the HTTP API. A template is evaluated.
func token(ctx context.Context, e *engine, cfg *config.Config, from config.APIToken) (serve.Token, error) {
	value, err := e.values.Text(ctx, cfg, from.Key, from.Text)
	if err != nil {
		return serve.Token{}, fmt.Errorf("look up the token of the HTTP API: %w", err)
	}
	return serve.Token{Key: from.Key, Value: strings.TrimSpace(value), File: from.File}, nil
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
