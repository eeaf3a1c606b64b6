package instance

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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

func TestKeep_GrantsApplyWithoutARestart(t *testing.T) {
	before := &config.Config{API: config.API{BindAddress: "127.0.0.1"}}
	cfg := &config.Config{API: config.API{BindAddress: "127.0.0.1", Access: roles.Policy{Grants: []roles.Grant{{Roles: []roles.Role{roles.View}, To: []string{"token:ci"}}}}}}
	var logged bytes.Buffer
	if keep(cfg, before, slog.New(slog.NewTextHandler(&logged, nil))); logged.Len() > 0 || !cfg.API.Access.Set() {
		t.Errorf("logged %s, in force: %+v", logged.String(), cfg.API)
	}
	cfg.API.BindAddress = "0.0.0.0"
	if keep(cfg, before, slog.New(slog.NewTextHandler(&logged, nil))); !strings.Contains(logged.String(), `keys=api`) || !cfg.API.Access.Set() || cfg.API.BindAddress != "127.0.0.1" {
		t.Errorf("logged %s, in force: %+v", logged.String(), cfg.API)
	}
	if before.API.Access.Set() {
		t.Error("the configuration that was in force has changed")
	}
}

func TestReload_AnotherDriverNeedsARestart(t *testing.T) {
	local, cloud := &config.Config{}, &config.Config{OtherDriver: &config.Cloud{Organization: "network"}}
	if sameDriver(local, cloud) == nil || sameDriver(cloud, local) == nil {
		t.Error("the driver is replaced while runs go on")
	}
	other := &config.Config{OtherDriver: &config.Cloud{Organization: "other"}}
	if err := sameDriver(other, cloud); err != nil {
		t.Error(err)
	}
	var logged bytes.Buffer
	keep(other, cloud, slog.New(slog.NewTextHandler(&logged, nil)))
	if other.Cloud().Organization != "network" || !strings.Contains(logged.String(), "keys=driver") {
		t.Errorf("in force: %+v; logged: %s", other.Cloud(), logged.String())
	}
}

func TestReload_FollowsTheFilesOfChecks(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"tasks.yaml":        "check: {a: {command: judge, files: [policy]}}\ntask: [{name: web, module: ./web, condition: {services: {names: [web]}}}]",
		"policy/main.rego":  "",
		"policy/lib/x.rego": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: "tasks.yaml"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join("policy", "lib", "x.rego"), filepath.Join("policy", "main.rego")}
	if got := furtherFiles(cfg); !slices.Equal(got, want) {
		t.Errorf("it follows %q, want %q", got, want)
	}
}
