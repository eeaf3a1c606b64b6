// Package configtest gives tests a configuration from the text of a task file.
package configtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Load writes a task file to a folder and loads it, without environment variables. The file's
// extension says its format.
func Load(t testing.TB, dir, file, text string) *config.Config {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Dir: dir, Paths: []config.Path{{Name: file}}, Hostname: "host", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return cfg
}
