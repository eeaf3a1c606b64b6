package rehearsal

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// basePrograms are the programs of this machine that the base of the images has.
var basePrograms = []string{"sh", "cp", "cat", "mkdir", "chmod", "chown", "git"}

// Podman returns a podman command that also works without user namespaces and with few open files.
func Podman(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "podman", append([]string{"--runtime", "runc"}, args...)...)
}

// Image builds an image for this machine, runner or daemon, and returns its name, which is valid
// until the test ends. Its base has this machine's shell, git and a CA certificate, because no
// registry is available. The test is skipped if images cannot be built and run here.
func Image(t testing.TB, target string) string {
	t.Helper()
	for _, program := range append([]string{"podman", "runc"}, basePrograms...) {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS != "linux" {
			t.Skipf("images are built and run on Linux with %s", program)
		}
	}
	base := fmt.Sprintf("localhost/terrapulse-base-%d", os.Getpid())
	archive := filepath.Join(t.TempDir(), "base.tar")
	writeBase(t, archive)
	if out, err := Podman(t.Context(), "import", archive, base).CombinedOutput(); err != nil {
		t.Fatalf("podman import: %v\n%s", err, out)
	}
	name := fmt.Sprintf("localhost/terrapulse-%s-%d", target, os.Getpid())
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", name, base).Run() })
	build := exec.CommandContext(t.Context(), "sh", "infra/runner/build")
	build.Dir = testtools.Root(t)
	build.Env = append(os.Environ(), "CONTAINER=podman", "TARGET="+target, "TAG="+name, "BASE="+base, "ARCH="+Here(),
		"TERRAFORM="+testtools.Terraform(t), "MIRROR="+filepath.Join(testtools.Root(t), ".tools", "mirror"),
		"BUILD_FLAGS=--runtime runc --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --no-cache --layers=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("infra/runner/build: %v\n%s", err, out)
	}
	return name
}

// writeBase writes a root file system with everything that the Containerfile needs from a base.
func writeBase(t testing.TB, archive string) {
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
	for _, program := range basePrograms {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
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
	add("/etc/ssl/certs/ca-certificates.crt", 0o644, Certificate(t))
	add("/etc/passwd", 0o644, []byte("root:x:0:0::/root:/bin/sh\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Certificate returns a CA certificate in PEM.
func Certificate(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(testtools.NewAuthority(t).CA)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
