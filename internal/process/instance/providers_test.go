package instance

import (
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"

	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestCarry_TasksShareProvidersUnlessTheUserHasConfiguredTerraform(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	cfg := &config.Config{WorkingDir: t.TempDir(), Terraform: config.Terraform{Path: filepath.Dir(testtools.Terraform(t))}}
	for _, variable := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_PLUGIN_CACHE_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", t.TempDir())
	shared := func() bool {
		t.Helper()
		wait, stop := Carry(t.Context(), cfg, 1, slog.New(slog.DiscardHandler))
		defer stop()
		c, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		bystander, _, err := Bystander(t.Context(), cfg, 1, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		carries, plans := c.Driver.(*tfdriver.Driver).Shared != nil, bystander.(*tfdriver.Driver).Shared != nil
		if carries != plans {
			t.Errorf("runs share: %v, plans share: %v", carries, plans)
		}
		return carries
	}
	if !shared() {
		t.Error("each task has its own copy")
	}
	t.Setenv("TF_CLI_CONFIG_FILE", "/etc/terraform.rc")
	if shared() {
		t.Error("the user's configuration of Terraform has no effect")
	}
}
