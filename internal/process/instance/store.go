package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// openStore opens the store that the instance writes.
func openStore(ctx context.Context, cfg *config.Config, o Options) (*stores.Store, error) {
	place, err := placeOf(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	return place.Write(ctx)
}

// placeOf returns the place of the store. The store of a cluster is the one that the task files configure.
func placeOf(ctx context.Context, cfg *config.Config, o Options) (stores.Place, error) {
	switch {
	case o.StoreURL == "" && o.Joins:
		return latestStore(ctx, cfg, o.Log)
	case o.StoreURL == "":
	case cfg.HighAvailability != nil:
		o.Log.Warn("-store is not used: with high_availability the state is kept in Consul", "store", o.StoreURL)
	default:
		return stores.At(ctx, o.StoreURL)
	}
	return stores.Configured(cfg), nil
}

// latestStore returns the place of the store of the latest instance with these task files, so that
// once-mode beside it, or after it, does not run the same tasks from the records of another store. The
// store is not used if it has none of these tasks, because an instance with other task files may have
// the same working_dir.
func latestStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (stores.Place, error) {
	configured := stores.Configured(cfg)
	place, err := stores.Of(ctx, cfg)
	if err != nil || place.Same(configured) {
		return place, err
	}
	shared, further, err := compareTasks(ctx, cfg, place)
	switch {
	case place.File != "" && errors.Is(err, fs.ErrNotExist):
		log.Warn("the store of the latest instance with this working_dir is gone: the configured one is used", "gone", place.Where, "store", configured.Where)
		return configured, nil
	case err != nil:
		return place, fmt.Errorf("read the tasks in %s, the store of the latest instance with this working_dir: %w; choose the store with -store", place.Where, err)
	case !shared && len(further) > 0:
		log.Info("the latest instance with this working_dir has other tasks: its store is not used", "other", place.Where, "store", configured.Where)
		return configured, nil
	case len(further) > 0:
		return place, fmt.Errorf("the store of the latest instance with this working_dir, %s, also has %s, which these task files do not have: give all task files of that instance, or choose the store with -store (with %[1]s, a task that the files do not have counts as removed)",
			place.Where, state.Some(further, "and"))
	}
	log.Info("the store is that of the latest instance with these task files", "store", place.Where)
	return place, nil
}

// compareTasks reports whether a store has one of the tasks of the files, and returns the names of
// those that it has besides. A task that was made through the API is none of these.
func compareTasks(ctx context.Context, cfg *config.Config, place stores.Place) (shared bool, further []string, err error) {
	store, err := place.Read(ctx)
	if err != nil {
		return false, nil, err
	}
	defer store.Close()
	effective, err := new(overlay.Source).Read(ctx, store, cfg)
	if err != nil {
		return false, nil, err
	}
	records, corrupt, err := state.ReadEach[state.Task](ctx, store, state.TaskPrefix)
	if err != nil {
		return false, nil, err
	}
	var names []string
	for _, r := range records {
		if r.Data.Gone.Since.IsZero() {
			names = append(names, state.TaskName(r.Key))
		}
	}
	for _, c := range corrupt {
		names = append(names, state.TaskName(c.Record.Key))
	}
	for _, name := range names {
		if _, ok := cfg.Task(name); ok {
			shared = true
		} else if _, made := effective.Config.Task(name); !made {
			further = append(further, name)
		}
	}
	return shared, further, nil
}

// noteStore makes commands with these task files find the store of this instance.
func (i *Instance) noteStore(cfg *config.Config) {
	before, err := stores.Note(cfg, i.store.Place)
	if err != nil {
		i.Log.Warn("commands with these task files may not find the store: give them -store, too", "store", i.store.Where, "error", err)
	}
	if before != "" {
		i.Log.Warn("the latest instance with this working_dir used another store: what people have held, paused or approved there does not count here", "store", i.store.Where, "other", before)
	}
}
