package main

import (
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

// reload reads the task files again whenever they change or SIGHUP says so,
// until the program is to end. Files that are wrong change nothing.
func (c *startCommand) reload(o *startOptions, e *engine, reloads chan<- reconcile.Reload, log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	wrong := ""
	for {
		select {
		case <-hup:
		case <-c.ctx.Done():
			return
		}
		news := reconcile.Reload{}
		cfg, err := o.config.read()
		switch {
		case err != nil:
			if err.Error() == wrong {
				continue // it was said
			}
			wrong, news.Wrong = err.Error(), err
			log.Error("the task files are wrong: what was read before stays in force", "error", err)
		default:
			keep(cfg, e.base.Load(), log)
			wrong, news.Config = "", cfg
			e.base.Store(cfg)
			log.Info("task files read again", "tasks", len(cfg.Tasks))
		}
		select {
		case reloads <- news:
		case <-c.ctx.Done():
			return
		}
	}
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
	hold("tls", &cfg.TLS, &before.TLS)
	hold("driver", &cfg.Terraform, &before.Terraform)
	if len(changed) > 0 {
		log.Warn("some changes of the configuration need a restart", "keys", strings.Join(changed, ", "))
	}
}
