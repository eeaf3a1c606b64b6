package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// door is where a command sends its requests. All of them are requests of the HTTP API: to an instance, to a
// deployment in AWS or, if no process answers for a store, to the same handler in this process.
type door struct {
	*apiclient.Client
	store *stores.Store // that the handler in this process works on; nil if another process answers
}

// Close ends what requests use.
func (d door) Close() error {
	if d.store != nil {
		return d.store.Close()
	}
	return d.Client.Close()
}

// doorFlags name a door.
type doorFlags struct {
	store storeFlags
	api   apiFlags
	// stored says that requests go to the store if no flag and no variable names a place, otherwise to an instance on
	// this machine.
	stored bool
}

// register registers the flags of a command that only reads: it needs no instance.
func (d *doorFlags) register(f *flag.FlagSet) {
	d.stored = true
	d.store.register(f)
	d.api.register(f)
	address, port := f.Lookup("http-addr"), f.Lookup("port")
	address.DefValue, address.Usage = "", "Read from the HTTP API at this `address` instead of a store: of an instance, or of a deployment in AWS, to which requests are signed. Also "+addressVariable+", if no flag names a store."
	port.Usage = "" // deprecated before these commands had it
}

// registerActing registers the flags of a command that people use to decide.
func (d *doorFlags) registerActing(f *flag.FlagSet) {
	d.store.register(f)
	d.api.register(f)
	f.Lookup("http-addr").Usage += " Not used with -config-file, -config-dir or -store, which name a store."
}

// open returns the door that the flags name. A store is opened as open does. The exit code is -1 if all is well.
func (d *doorFlags) open(a *app, open func(stores.Place, context.Context) (*stores.Store, error)) (door, int) {
	given := d.api.given()
	if code := a.onePlace(given); code >= 0 {
		return door{}, code
	}
	named := d.api.named(given)
	if stored := d.stored || d.store.url != "" || len(d.store.config.paths) > 0; named || !stored {
		client, code := a.apiClient(&d.api)
		return door{Client: client}, code
	}
	place, err := d.store.place(a.ctx)
	if err != nil {
		return door{}, a.invalid(err)
	}
	store, err := open(place, a.ctx)
	if err != nil {
		return door{}, a.fail(exitError, err)
	}
	return a.over(store, d.store.base()), -1
}

// over returns the door to a store. Whoever may open it may do everything; the name of the user is only claimed.
func (a *app) over(store *stores.Store, base func(context.Context) (*config.Config, error)) door {
	who := identity.Identity{Name: identity.Claimed(userAtHost()), Proof: identity.Local}
	a.ctx = access.With(audit.With(a.ctx, audit.Actor{Identity: who, Via: audit.Command}), access.Caller{Identity: who, Rights: roles.Everything()})
	handler := api.New(api.Options{
		Control: &control.Control{Store: store, Base: base, Source: new(overlay.Source), Output: store.Elsewhere(), Now: time.Now},
		Tokens:  credentials.New(store, time.Now),
		Store:   apispec.Store{Kind: store.Kind, Where: store.Where}, Version: buildinfo.Version, Log: warningsTo(a.stderr),
	})
	return door{apiclient.Local(handler), store}
}

// base returns a function that returns what the task files say.
func (s *storeFlags) base() func(context.Context) (*config.Config, error) {
	read := sync.OnceValues(func() (*config.Config, error) {
		if len(s.config.paths) == 0 {
			return nil, &control.UnknownError{Why: "this needs what is in the task files: name them with -config-file or -config-dir, or use the API with -http-addr"}
		}
		cfg, err := s.config.read()
		if err != nil {
			err = &control.UnknownError{Why: err.Error()}
		}
		return cfg, err
	})
	return func(context.Context) (*config.Config, error) { return read() }
}

// warningsTo returns the log of an API in this process. It leaves out errors: they are answers.
func warningsTo(w io.Writer) *slog.Logger {
	return slog.New(warnings{slog.NewTextHandler(w, nil)})
}

type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }
