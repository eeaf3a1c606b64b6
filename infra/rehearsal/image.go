package rehearsal

import (
	"archive/tar"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
	base := importBase(t, runtime.GOARCH)
	name := fmt.Sprintf("localhost/terrapulse-%s-%d", target, os.Getpid())
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", name).Run() })
	buildImage(t, "infra/runner/build", "CONTAINER=podman", "TARGET="+target, "TAG="+name, "BASE="+base, "ARCH="+Here(),
		"MIRROR="+filepath.Join(testtools.Root(t), ".tools", "mirror"))
	return name
}

// ReleasedImage builds the images of a target for both processors as a release does, and returns
// the name that they share. The image for the other processor has programs of this machine, except
// its own: a test can read it, and not run it.
func ReleasedImage(t testing.TB, target, version string) string {
	t.Helper()
	base := fmt.Sprintf("localhost/terrapulse-bases-%d", os.Getpid())
	images := fmt.Sprintf("localhost/release-%d", os.Getpid())
	name := fmt.Sprintf("%s/terrapulse-%s:%s", images, target, version)
	t.Cleanup(func() {
		_ = exec.Command("podman", "manifest", "rm", name).Run()
		_ = exec.Command("podman", "manifest", "rm", base).Run()
		_ = exec.Command("podman", "rmi", "--force", name+"-arm64", name+"-x86_64").Run()
	})
	join := []string{"manifest", "create", base, "containers-storage:" + importBase(t, "arm64"), "containers-storage:" + importBase(t, "amd64")}
	if out, err := Podman(t.Context(), join...).CombinedOutput(); err != nil {
		t.Fatalf("podman manifest create: %v\n%s", err, out)
	}
	buildImage(t, "infra/runner/release", "TARGETS="+target, "IMAGES="+images, "VERSION="+version, "BASE="+base)
	return name
}

// importBase imports the base for a processor, with programs of this machine, and returns its name.
func importBase(t testing.TB, arch string) string {
	t.Helper()
	for _, program := range append([]string{"podman", "runc"}, basePrograms...) {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS != "linux" {
			t.Skipf("images are built and run on Linux with %s", program)
		}
	}
	base := fmt.Sprintf("localhost/terrapulse-base-%s-%d", arch, os.Getpid())
	archive := filepath.Join(t.TempDir(), "base.tar")
	writeBase(t, archive)
	if out, err := Podman(t.Context(), "import", "--arch", arch, archive, base).CombinedOutput(); err != nil {
		t.Fatalf("podman import: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", base).Run() })
	return base
}

// buildImage runs a script that builds images with the given variables.
func buildImage(t testing.TB, script string, env ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "sh", script)
	build.Dir = testtools.Root(t)
	build.Env = append(os.Environ(), "TERRAFORM="+testtools.Terraform(t),
		"BUILD_FLAGS=--runtime runc --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --no-cache --layers=false")
	build.Env = append(build.Env, env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// stockPrograms are the programs of an image without Terrapulse, beside Terraform and git.
var stockPrograms = []string{"sh", "wget", "sha256sum", "tar", "gzip", "mkdir", "rm", "chmod", "sleep", "timeout"}

// StockImage returns the name of an image in the form of HashiCorp's image of Terraform: it has no
// runner and no folder /work, and its programs are Busybox where this machine has it.
func StockImage(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("localhost/terrapulse-stock-%d", os.Getpid())
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", name).Run() })
	archive := filepath.Join(t.TempDir(), "stock.tar")
	for _, program := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS != "linux" {
			t.Skipf("images are run on Linux with %s", program)
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err == nil {
		err = exec.Command("ldd", busybox).Run() // a static one resolves no names
	}
	programs := map[string]string{"/bin/terraform": testtools.Terraform(t)}
	for _, program := range append(stockPrograms, "git") {
		programs["/bin/"+program] = busybox
		if err != nil || program == "git" {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skipf("images are made with %s", program)
			}
			programs["/bin/"+program] = path
		}
	}
	writeRoot(t, archive, programs)
	if out, err := Podman(t.Context(), "import", archive, name).CombinedOutput(); err != nil {
		t.Fatalf("podman import: %v\n%s", err, out)
	}
	return name
}

// writeBase writes a root file system with everything that the Containerfile needs from a base.
func writeBase(t testing.TB, archive string) {
	t.Helper()
	programs := map[string]string{}
	for _, program := range basePrograms {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		programs["/bin/"+program] = path
	}
	writeRoot(t, archive, programs)
}

// writeRoot writes a root file system with programs of this machine, by their paths in it, and a CA
// certificate.
func writeRoot(t testing.TB, archive string, programs map[string]string) {
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
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		path := programs[name]
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		add("/usr"+name, 0o755, content)
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
