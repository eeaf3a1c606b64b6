package instance

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// reload reads the task files again when they change or SIGHUP requests it, until
// the context ends. Wrong files change nothing.
func (i *Instance) reload(ctx context.Context, reloads chan<- reconcile.Reload) {
	files, log := i.Files, i.Log
	wrong := ""
	files.Follow(i.ReadAt, furtherFiles(i.base.Load())...)
	for change := range files.C() {
		news := reconcile.Reload{}
		read := time.Now()
		cfg, err := i.Read()
		if err == nil {
			err = sameDriver(cfg, i.base.Load())
		}
		switch {
		case err != nil:
			if err.Error() == wrong && !change.Asked {
				continue // logged already
			}
			wrong, news.Wrong = err.Error(), err
			log.Error("the task files are wrong: what was read before stays in force", "error", err)
		default:
			before := i.base.Load()
			LogWarnings(log, cfg, before.Warnings...)
			keep(cfg, before, log)
			if cfg.WorkingDir != before.WorkingDir && i.StoreURL == "" && cfg.HighAvailability == nil {
				log.Warn("working_dir changed: the store stays where it is until the restart; stop this instance and move the store's files to the new folder before you start it again",
					"store", filepath.Join(before.WorkingDir, stores.DefaultFile), "working_dir", cfg.WorkingDir)
			}
			wrong, news.Config = "", cfg
			i.base.Store(cfg)
			if cfg.WorkingDir != before.WorkingDir {
				i.noteStore(cfg)
			}
			files.Follow(read, furtherFiles(cfg)...)
			log.Info("task files read again", "tasks", len(cfg.Tasks), "asked", change.Asked, "changed", strings.Join(change.Files, " "))
		}
		select {
		case reloads <- news:
		case <-ctx.Done():
			return
		}
	}
}

// furtherFiles are the files that the configuration is read from beside the task files.
func furtherFiles(cfg *config.Config) []string {
	var files []string
	for i := range cfg.Tasks {
		files = append(files, cfg.Tasks[i].VariableFiles...)
		for _, c := range cfg.Tasks[i].Checks {
			read, _ := policycheck.Files(cfg.Dir(), c.Files) // an error was reported when the configuration was read
			files = append(files, read...)
		}
	}
	return files
}

// sameDriver returns an error if the files name another driver than before: an instance keeps
// its driver, because runs are under way.
func sameDriver(cfg, before *config.Config) error {
	if cfg.Driver().Kind() == before.Driver().Kind() {
		return nil
	}
	return errors.New("the task files name another driver: restart this instance to use it")
}

// keep puts the settings that hold for as long as the process does back to what
// they were, and says so of those that were changed.
func keep(cfg, before *config.Config, log *slog.Logger) {
	var changed []string
	hold := func(name string, now, was any) {
		n, w := reflect.ValueOf(now).Elem(), reflect.ValueOf(was).Elem()
		if !reflect.DeepEqual(n.Interface(), w.Interface()) {
			changed = append(changed, name)
			n.Set(w)
		}
	}
	hold("log_level", &cfg.LogLevel, &before.LogLevel)
	hold("port", &cfg.Port, &before.Port)
	hold("id", &cfg.ID, &before.ID)
	hold("syslog", &cfg.Syslog, &before.Syslog)
	hold("consul", &cfg.Consul, &before.Consul)
	hold("vault", &cfg.Vault, &before.Vault)
	api := before.API
	api.Access = cfg.API.Access // requests read it from the configuration in force
	hold("api", &cfg.API, &api)
	hold("tls", &cfg.TLS, &before.TLS)
	hold("driver", &cfg.Terraform, &before.Terraform)
	hold("driver", &cfg.OtherDriver, &before.OtherDriver)
	hold("high_availability", &cfg.HighAvailability, &before.HighAvailability)
	hold("nomad", &cfg.Nomad, &before.Nomad)
	if len(changed) > 0 {
		log.Warn("some changes of the configuration need a restart", "keys", strings.Join(slices.Compact(changed), ", "))
	}
}
