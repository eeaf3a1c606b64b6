package drivertest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/drivertest"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

const task = "\ntask {\n  name = \"web\"\n  module = \"example/web/aws\"\n  condition \"services\" { names = [\"web\"] }\n}\n"

// load loads task files with a driver block in a folder of their own.
func load(t *testing.T, driver string) *config.Config {
	t.Helper()
	return configtest.Load(t, t.TempDir(), "tasks.hcl", driver+task)
}

func TestBlock_OfARegisteredDriverIsRead(t *testing.T) {
	for file, text := range map[string]string{
		"f.hcl":  "driver \"bureau\" {\n  office = \"north\"\n  token = \"{{ env \\\"TOKEN\\\" }}\"\n}" + task,
		"f.yaml": "driver: {bureau: {office: north, token: '{{ env \"TOKEN\" }}'}}\ntask: [{name: web, module: example/web/aws, condition: {services: {names: [web]}}}]\n",
	} {
		cfg := configtest.Load(t, t.TempDir(), file, text)
		if got, ok := cfg.Driver().(*drivertest.Block); !ok || *got != (drivertest.Block{Office: "north", Token: `{{ env "TOKEN" }}`}) {
			t.Errorf("%s: %+v", file, cfg.Driver())
		}
		if names := cfg.EnvNames(); !slices.Contains(names, "TOKEN") {
			t.Errorf("%s: templates may read %q", file, names)
		}
		if cfg.BackendDigest() != "" {
			t.Errorf("%s: the states are in a backend of Terraform", file)
		}
	}
}

func TestBlock_IsPartOfTheDefinitionOfItsTasks(t *testing.T) {
	north, south, local := load(t, `driver "bureau" { office = "north" }`), load(t, `driver "bureau" { office = "south" }`), load(t, "")
	digests := []string{}
	for _, cfg := range []*config.Config{north, south, local} {
		digests = append(digests, cfg.Tasks[0].Digest(cfg))
	}
	if slices.Sort(digests); len(slices.Compact(digests)) != 3 {
		t.Errorf("the definitions have the digests %q", digests)
	}
	if what := config.Differences(north, &north.Tasks[0], south, &south.Tasks[0]); !slices.Equal(what, []string{"office"}) {
		t.Errorf("what differs is %q", what)
	}
}

func TestBlock_ErrorsAreReported(t *testing.T) {
	for driver, want := range map[string]string{
		`driver "bureau" {}`:                  "driver.bureau.office: office is required",
		`driver "bureau" { ofice = "north" }`: `did you mean "office"?`,
		`driver "bureaux" {}`:                 `did you mean "bureau"?`,
		"driver \"bureau\" { office = \"north\" }\ndriver \"terraform\" {}": "only one 'driver' block can be configured",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tasks.hcl"), []byte(driver+task), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Options{Dir: dir, Paths: []config.Path{{Name: "tasks.hcl"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

func TestBlock_IsCheckedForAWS(t *testing.T) {
	unread := load(t, `driver "bureau" {
  office = "north"
  token = "{{ key \"token\" }}"
}`)
	var found config.Errors
	if err := bundle.CheckPlaces(unread); !errors.As(err, &found) || found[0].Key != "driver.bureau.token" {
		t.Errorf("a template that a function cannot evaluate: %v", err)
	}
	secret := load(t, `driver "bureau" {
  office = "north"
  token = "ahGh8quaeBu4"
}`)
	if err := bundle.CheckSecrets(secret); !errors.As(err, &found) || !strings.HasPrefix(found[0].Hint, "remove it: use a template") {
		t.Errorf("a secret in plain text: %v", err)
	}
}
