// Package stores lists the kinds of stores and opens a store by its URL.
//
// A kind of store is a package below this one that passes statetest, a
// file in this package that describes its URL, and a line in kinds. The
// functions in AWS open their table with internal/stores/dynamo itself, so that
// they do not link the other kinds.
package stores

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// kinds are all kinds of stores, in the order in which help lists them.
var kinds = []kind{sqliteFile, dynamoTable, consulFolder}

// kind describes the stores whose URLs have the same scheme.
type kind struct {
	scheme string
	form   string // of the URL, such as sqlite:PATH
	about  string // what such a store is, for help
	// at returns the place that a URL with this scheme names.
	at func(ctx context.Context, url string) (Place, error)
}

// Place is where a store is. It is not open yet.
type Place struct {
	Kind  string // the scheme of its URL
	Where string // for people: the path, or the name of the table
	// File is the path of the store if it is a file on this machine, else "".
	File string
	// OneClock says that all processes that use the store run on one machine, so
	// that their clocks agree.
	OneClock bool
	// LiveOutput is how often the output of a running run is written.
	LiveOutput time.Duration

	read   func(context.Context) (state.Store, error)
	write  func(context.Context) (state.Store, error)
	change func(context.Context) (state.Store, error)
	// output loads a run's output that is kept outside of the store; nil if the
	// store keeps all output.
	output func(ctx context.Context, url string) ([]byte, error)
}

// Store is an open store.
type Store struct {
	state.Store
	Place
}

var (
	_ state.Writable = (*Store)(nil)
	_ state.Awaiter  = (*Store)(nil)
	_ state.Backward = (*Store)(nil)
	_ state.Several  = (*Store)(nil)
)

// Unwritable implements state.Writable.
func (s *Store) Unwritable() error { return state.Unwritable(s.Store) }

// Await implements state.Awaiter.
func (s *Store) Await(ctx context.Context, prefix, mark string) (string, error) {
	return state.Await(ctx, s.Store, prefix, mark)
}

// Last implements state.Backward.
func (s *Store) Last(ctx context.Context, prefix, before string, n int) ([]state.Record, error) {
	return state.Last(ctx, s.Store, prefix, before, n)
}

// GetSeveral implements state.Several.
func (s *Store) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	return state.GetSeveral(ctx, s.Store, keys)
}

// At returns the place that a URL names.
func At(ctx context.Context, url string) (Place, error) {
	scheme, _, _ := strings.Cut(url, ":")
	var forms []string
	for _, k := range kinds {
		if k.scheme == scheme {
			return k.at(ctx, url)
		}
		forms = append(forms, k.form)
	}
	return Place{}, fmt.Errorf("store %q: unknown kind of store; use one of %s", url, strings.Join(forms, ", "))
}

// Configured returns the place of the store that task files configure: a file
// in working_dir, or a folder in Consul if high_availability is configured.
func Configured(settings *config.Config) Place {
	if h := settings.HighAvailability; h != nil {
		return clusterFolder(settings.Consul, h.Cluster.Path(), h.Cluster.Storage.Consul.Namespace)
	}
	return fileIn(settings.WorkingDir)
}

// Read opens the store for reading.
func (p Place) Read(ctx context.Context) (*Store, error) { return p.open(ctx, p.read) }

// Write opens the store for an instance, which reads and writes it.
func (p Place) Write(ctx context.Context) (*Store, error) { return p.open(ctx, p.write) }

// Change opens the store for what people change. The leader acts on it.
func (p Place) Change(ctx context.Context) (*Store, error) { return p.open(ctx, p.change) }

func (p Place) open(ctx context.Context, open func(context.Context) (state.Store, error)) (*Store, error) {
	store, err := open(ctx)
	if err != nil {
		return nil, err
	}
	return &Store{summary.Keep(store), p}, nil
}

// Output returns what Terraform printed in a run.
func (s *Store) Output(ctx context.Context, run state.Run) ([]byte, error) {
	return run.PrintedTo().Load(ctx, s.Store, run.Task, s.output)
}

// Elsewhere loads output that is kept outside of the store, by its URL; nil if the
// store keeps all output.
func (s *Store) Elsewhere() func(ctx context.Context, url string) ([]byte, error) { return s.output }

// Help describes the URLs of all kinds of stores.
func Help() string {
	return strings.Join(list.Map(kinds, func(k kind) string { return k.form + " is " + k.about }), "; ")
}

// refused returns the function that refuses to open a store for an instance.
func refused(url, why string) func(context.Context) (state.Store, error) {
	return func(context.Context) (state.Store, error) {
		return nil, fmt.Errorf("store %q: %s", url, why)
	}
}
