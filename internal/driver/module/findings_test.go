package module

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestFindings_AllowsReferencesThatTerraformAllows(t *testing.T) {
	dir := t.TempDir()
	module := `
module "new" {
  source = "./part"
}

moved {
  from = module.old
  to   = module.new
}

removed {
  from = module.gone
  lifecycle {
    destroy = false
  }
}

output "names" {
  value = [for module in [{ name = "a" }] : { for local in ["b"] : local => module.name }]
}
`
	if err := os.Mkdir(filepath.Join(dir, "part"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.tf": module, "part/main.tf": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, found := range Findings(&config.Task{Name: "web", Module: dir}, nil) {
		t.Errorf("a valid module is refused: %s", found.Problem)
	}
}
