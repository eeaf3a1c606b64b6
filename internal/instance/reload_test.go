package instance

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
)

func TestKeep_LogsSettingsThatNeedARestart(t *testing.T) {
	cluster := func(ttl time.Duration) *config.Config {
		h := &config.HighAvailability{Cluster: config.Cluster{Name: "prod", Storage: config.ClusterStorage{Consul: config.ConsulStorage{SessionTTL: ttl}}}}
		return &config.Config{LogLevel: "INFO", HighAvailability: h}
	}
	before, cfg := cluster(15*time.Second), cluster(time.Minute)
	cfg.LogLevel, cfg.WorkingDir = "DEBUG", "elsewhere"
	var logged bytes.Buffer
	keep(cfg, before, slog.New(slog.NewTextHandler(&logged, nil)))
	if !strings.Contains(logged.String(), `keys="log_level, high_availability"`) {
		t.Errorf("logged %s", logged.String())
	}
	if cfg.LogLevel != "INFO" || cfg.HighAvailability.Cluster.Storage.Consul.SessionTTL != 15*time.Second || cfg.WorkingDir != "elsewhere" {
		t.Errorf("in force: %+v, of the cluster %+v", cfg, cfg.HighAvailability)
	}

	logged.Reset()
	if keep(cluster(15*time.Second), before, slog.New(slog.NewTextHandler(&logged, nil))); logged.Len() > 0 {
		t.Errorf("nothing has changed, and logged is %s", logged.String())
	}
}
