package instance

import (
	"errors"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestWorks_DiffersWithWhatDecidesARun(t *testing.T) {
	base := func() *config.Config {
		return &config.Config{Consul: config.Consul{Address: "a:8500"}, Tasks: []config.Task{{Name: "web", Module: "./web", Enabled: true}}}
	}
	digest := func(change func(*config.Config)) string {
		cfg := base()
		change(cfg)
		return new(filesDigest).of(cfg)
	}
	same := digest(func(*config.Config) {})
	for what, cfg := range map[string]func(*config.Config){
		"another module":    func(c *config.Config) { c.Tasks[0].Module = "./other" },
		"another buffer":    func(c *config.Config) { c.Tasks[0].BufferPeriod = config.BufferPeriod{Enabled: true, Min: time.Second} },
		"another guard":     func(c *config.Config) { c.Tasks[0].Guard = guard.Spec{MaxRemoved: new(1)} },
		"another task":      func(c *config.Config) { c.Tasks = append(c.Tasks, config.Task{Name: "api"}) },
		"another namespace": func(c *config.Config) { c.Consul.Namespace = "team" },
	} {
		if digest(cfg) == same {
			t.Errorf("%s makes no difference", what)
		}
	}
	for what, cfg := range map[string]func(*config.Config){
		"the nearest Consul": func(c *config.Config) { c.Consul.Address = "b:8500" },
		"another folder":     func(c *config.Config) { c.WorkingDir, c.Tasks[0].WorkingDir = "/b", "/b/web" },
	} {
		if digest(cfg) != same {
			t.Errorf("%s makes a difference", what)
		}
	}
	if local := func(dir string) string {
		return digest(func(c *config.Config) { c.Terraform.Backend.Type, c.Tasks[0].WorkingDir = "local", dir })
	}; local("/a/web") == local("/b/web") {
		t.Error("another folder with the state makes no difference")
	}
	plain := works(1, same, "terraform 1.13.5", nil)
	if works(1, same, "terraform 1.14.0", nil) == plain || works(1, same, "terraform 1.13.5", map[string]error{"web": errors.New("no module")}) == plain ||
		works(2, same, "terraform 1.13.5", nil) == plain {
		t.Error("another Terraform, a missing module, or another format of records makes no difference")
	}
}
