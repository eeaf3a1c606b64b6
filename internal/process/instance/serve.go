package instance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/consul/registration"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/people/web"
	"github.com/terrapulse/terrapulse/internal/process/cluster"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// listen takes the port of the HTTP API. Requests wait until it is served.
func (i *Instance) listen(ctx context.Context, member *cluster.Member, cfg *config.Config) (*serve.Server, error) {
	options := api.Options{Control: i.Control(), Began: time.Now(), Sensitive: module.SensitiveVariables, Log: i.Log, Version: i.Version, Metrics: i.metrics.Handler(),
		Store: apispec.Store{Kind: i.store.Kind, Where: i.store.Where}, Gates: i.seen, HintKey: i.hintKey(),
		Instance: &apispec.Instance{ID: cfg.ID, Owner: i.Reconciler.Owner, Consul: new(i.consul.Address()), Terraform: apiview.Optional(i.program)}}
	if member != nil {
		options.Cluster = member
	}
	options.Tokens = credentials.New(i.store, time.Now)
	if o := cfg.API.OIDC; o != nil {
		options.Login = &api.Login{Issuer: o.Issuer, ClientID: o.CLIClient(), Scopes: o.Scopes, UsernameClaim: o.UsernameClaim, GroupsClaim: o.GroupsClaim}
	}
	handler := api.New(options)
	served := serve.Options{
		Address: cfg.API.BindAddress, Port: cfg.Port, Hosts: serve.Hosts(cfg), Public: api.HealthPath, Signed: api.NotificationPath, Login: api.LoginPath, Pages: outbox.PagesPath,
		TLS: cfg.TLS, AllowOrigin: i.AllowOrigin, Log: i.Log, Handler: i.withPages(ctx, cfg, handler),
		Credentials: options.Tokens,
		Policy:      i.policy,
		Refuse:      func(r *http.Request) error { return handler.Refuse(web.AsRequest(r)) },
	}
	var err error
	if served.OpenID, err = i.openID(ctx, cfg); err != nil {
		return nil, err
	}
	if served.Token, err = i.token(ctx, cfg, cfg.API.Token); err != nil {
		return nil, err
	}
	if served.ReadToken, err = i.token(ctx, cfg, cfg.API.ReadToken); err != nil {
		return nil, err
	}
	server, err := serve.Listen(ctx, served)
	if err != nil {
		return nil, err
	}
	i.Log.Info("serving the HTTP API", "address", server.Addr().String(), "tls", cfg.TLS.Enabled, "token", cfg.API.Token.Set())
	if cfg.Anonymous() {
		i.Log.Warn("anyone who can reach the HTTP API can read it, and only this machine can change something: "+
			"set api.token, tls.verify_incoming, or api.bind_address to 127.0.0.1", "address", server.Addr().String())
	}
	return server, nil
}

// policy returns who may do what. Labels are those of the task files in force when somebody acts.
func (i *Instance) policy() roles.Policy {
	p := i.base.Load().API.Access
	p.Labels = func(task string) map[string]string { return i.base.Load().LabelsInFiles(task) }
	return p
}

// withPages adds the pages to the API.
func (i *Instance) withPages(ctx context.Context, cfg *config.Config, handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle(outbox.PagesPath, web.New(ctx, web.Options{
		API: apiclient.Local(handler), Provider: providerName(cfg.API.OIDC), Version: i.Version, Now: time.Now, Log: i.Log,
	}))
	mux.Handle("GET /{$}", http.RedirectHandler(outbox.PagesPath, http.StatusFound))
	return mux
}

// token returns a configured token of the HTTP API. It evaluates templates.
func (i *Instance) token(ctx context.Context, cfg *config.Config, from config.APIToken) (serve.Token, error) {
	value, err := i.values.Text(ctx, cfg, from.Key, from.Text)
	if err != nil {
		return serve.Token{}, fmt.Errorf("look up the token of the HTTP API: %w", err)
	}
	return serve.Token{Key: from.Key, Value: strings.TrimSpace(value), File: from.File}, nil
}

// register registers this instance in Consul, as listening at the address, until
// the context ends. It does nothing unless the configuration enables it. The
// function that it returns removes the registration.
func (i *Instance) register(ctx context.Context, cfg *config.Config, at net.Addr) (withdraw func()) {
	if !cfg.Consul.ServiceRegistration.Enabled {
		return func() {}
	}
	served := *cfg
	if tcp, ok := at.(*net.TCPAddr); ok {
		served.Port = tcp.Port // port 0 means any free port
	}
	return background.Run(ctx, registration.New(i.consul.API(), registration.Service(&served), i.Log).Run)
}
