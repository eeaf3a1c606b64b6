package infra_test

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// podman runs podman as it works here, too, where containers have no user
// namespaces of their own and few open files.
func podman(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	return exec.CommandContext(t.Context(), "podman", append([]string{"--runtime", "runc"}, args...)...).CombinedOutput()
}

// image is the runner's image, with a base of this machine's own shell, git and
// CA certificates, as no registry is at hand.
func image(t *testing.T) string {
	t.Helper()
	slow(t)
	for _, program := range []string{"podman", "runc", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	base := fmt.Sprintf("localhost/terrapulse-base-%d", os.Getpid())
	archive := filepath.Join(t.TempDir(), "base.tar")
	writeBase(t, archive)
	if out, err := podman(t, "import", archive, base); err != nil {
		t.Fatalf("podman import: %v\n%s", err, out)
	}
	name := fmt.Sprintf("localhost/terrapulse-runner-%d", os.Getpid())
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", name, base).Run() })
	build := exec.CommandContext(t.Context(), "sh", "infra/runner/build")
	build.Dir = testtools.Root(t)
	build.Env = append(os.Environ(), "CONTAINER=podman", "TAG="+name, "BASE="+base, "ARCH="+rehearsal.Here(),
		"TERRAFORM="+testtools.Terraform(t), "MIRROR="+filepath.Join(testtools.Root(t), ".tools", "mirror"),
		"BUILD_FLAGS=--runtime runc --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --no-cache --layers=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("infra/runner/build: %v\n%s", err, out)
	}
	return name
}

// writeBase writes a root file system of what the Containerfile asks of a base.
func writeBase(t *testing.T, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	written := map[string]bool{}
	add := func(path string, mode int64, content []byte) {
		if written[path] {
			return
		}
		written[path] = true
		err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: mode, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"sh", "cp", "cat", "mkdir", "chmod", "chown", "git"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("needs %s", program)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		add("/usr/bin/"+program, 0o755, content)
		libraries, _ := exec.Command("ldd", path).Output() // a static one has none
		for word := range strings.FieldsSeq(string(libraries)) {
			if !strings.HasPrefix(word, "/") {
				continue
			}
			if content, err = os.ReadFile(word); err != nil {
				t.Fatal(err)
			}
			add(word, 0o755, content)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin", Mode: 0o777}); err != nil {
		t.Fatal(err)
	}
	add("/etc/ssl/certs/ca-certificates.crt", 0o644, []byte(certificate(t)))
	add("/etc/passwd", 0o644, []byte("root:x:0:0::/root:/bin/sh\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// certificate is a CA's, in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// The image has what a run needs, for a user without a name, where nothing but
// the work volume can be written.
func TestTheImageHasWhatARunNeeds(t *testing.T) {
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
	if out, err := in("terraform", "version"); err != nil || !strings.HasPrefix(out, "Terraform v") {
		t.Errorf("terraform: %v\n%s", err, out)
	}
	if out, err := in("git", "version"); err != nil || !strings.HasPrefix(out, "git version") {
		t.Errorf("git: %v\n%s", err, out)
	}
	// Providers come from the image, without a line of configuration.
	if out, err := in("sh", "-c", `printf 'terraform {\n required_providers {\n local = { source = "hashicorp/local" }\n }\n}\n' > main.tf && terraform init -no-color`); err != nil || !strings.Contains(out, "Installed hashicorp/local") {
		t.Errorf("terraform init: %v\n%s", err, out)
	}
	if out, err := in("sh", "-c", "echo x > /usr/local/bin/other"); err == nil {
		t.Errorf("the file system can be written\n%s", out)
	}
	// Without settings, the program says which.
	out, err = podman(t, "run", "--rm", "--read-only", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", name)
	if err == nil || !bytes.Contains(out, []byte("TERRAPULSE_TABLE is not set")) {
		t.Errorf("without settings: %v\n%s", err, out)
	}
}

func TestOnlyCertificatesAreTrusted(t *testing.T) {
	for _, tt := range []struct{ name, file, content, refused string }{
		{"a certificate", "own.pem", certificate(t), ""},
		{"a key", "own.pem", "-----BEGIN EC PRIVATE KEY-----\n", "holds a private key"},
		{"junk", "own.crt", "junk", "holds no certificate"},
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
