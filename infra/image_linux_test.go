package infra_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// image returns the runner's image, with a base from this machine.
func image(t *testing.T) string {
	t.Helper()
	slow(t)
	return rehearsal.Image(t, "runner")
}

func podman(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return rehearsal.Podman(t.Context(), args...).CombinedOutput()
}

// The image has everything that a run needs, for a user without a name, if only the work volume can
// be written.
func TestImage_HasWhatARunNeeds(t *testing.T) {
	name := image(t)
	out, err := podman(t, "image", "inspect", name)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var images []struct {
		Config struct {
			User, WorkingDir string
			Entrypoint, Env  []string
			Volumes          map[string]any
		}
	}
	if err := json.Unmarshal(out, &images); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	config := images[0].Config
	if _, ok := config.Volumes["/work"]; config.User != "65532:65532" || config.WorkingDir != "/work" || !ok {
		t.Errorf("%+v", config)
	}
	in := func(entrypoint string, args ...string) (string, error) {
		out, err := podman(t, append([]string{"run", "--rm", "--read-only", "--read-only-tmpfs=false", "--passwd=false", "--network", "none",
			"--cap-drop", "all", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--env", "HOME=/work", "--entrypoint", entrypoint, name}, args...)...)
		return string(out), err
	}
	if out, err := in("terraform", "version"); err != nil || !strings.HasPrefix(out, "Terraform v") && !strings.HasPrefix(out, "OpenTofu v") {
		t.Errorf("terraform: %v\n%s", err, out)
	}
	if out, err := in("git", "version"); err != nil || !strings.HasPrefix(out, "git version") {
		t.Errorf("git: %v\n%s", err, out)
	}
	// Providers come from the image, without any configuration. Terraform links to them: it unpacks nothing for a task.
	if out, err := in("sh", "-c", `printf 'terraform {\n required_providers {\n local = { source = "hashicorp/local" }\n }\n}\n' > main.tf && terraform init -no-color && test -L .terraform/providers/registry.terraform.io/hashicorp/local/*/*`); err != nil || !strings.Contains(out, "Installed hashicorp/local") {
		t.Errorf("terraform init: %v\n%s", err, out)
	}
	if out, err := in("sh", "-c", "echo x > /usr/local/bin/other"); err == nil {
		t.Errorf("the file system can be written\n%s", out)
	}
	// Without settings, the program says which ones are missing.
	out, err = podman(t, "run", "--rm", "--read-only", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", name)
	if err == nil || !bytes.Contains(out, []byte("TERRAPULSE_TABLE is not set")) {
		t.Errorf("without settings: %v\n%s", err, out)
	}
}

func TestTrust_AcceptsOnlyCertificates(t *testing.T) {
	for _, tt := range []struct{ name, file, content, refused string }{
		{"a certificate", "own.pem", string(rehearsal.Certificate(t)), ""},
		{"a key", "own.pem", "-----BEGIN EC PRIVATE KEY-----\n", "contains a private key"},
		{"junk", "own.crt", "junk", "contains no certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, to := t.TempDir(), t.TempDir()
			trust := filepath.Join(testtools.Root(t), "layers", "trust")
			if err := os.CopyFS(dir, os.DirFS(trust)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("sh", filepath.Join(dir, "pack"), to).CombinedOutput()
			if tt.refused != "" {
				if err == nil || !strings.Contains(string(out), tt.refused) {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if packed, err := fs.ReadFile(os.DirFS(to), tt.file); err != nil || string(packed) != tt.content {
				t.Errorf("%v: %s", err, packed)
			}
		})
	}
}
