package infra_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cavaliergopher/rpm"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// releaseVersion is the version of the release that the tests build.
const releaseVersion = "v1.2.3-test"

// allPlatforms makes the tests build the programs for all platforms, not only for Linux.
var allPlatforms = os.Getenv("TERRAPULSE_TEST_RELEASE") == "all"

// released are what the tests share: the folder of tools/release, in the checkout because goreleaser
// finds no file outside, and the folder of goreleaser.
var released = struct {
	packaged, dist func() (string, error)
}{
	packaged: sync.OnceValues(func() (string, error) {
		to, err := filepath.Abs("../bin/release-test")
		return to, errors.Join(err, atTop("go", "run", "./tools/release", "-version", releaseVersion, "-to", to))
	}),
	dist: sync.OnceValues(func() (string, error) { return goreleaser("dist", "amd64, arm64") }),
}

// packaged returns the folder with the packaged template and its functions.
func packaged(t *testing.T) string {
	t.Helper()
	slow(t)
	testtools.Goreleaser(t) // `make test-all` and `make test-release` run it; without it, the test fails here and says what to do
	folder, err := released.packaged()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// dist returns the folder with the programs and packages of a release.
func dist(t *testing.T) string {
	t.Helper()
	packaged(t)
	folder, err := released.dist()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// goreleaser builds a release for some processors into a folder with this name, without publishing
// it.
func goreleaser(name, processors string) (string, error) {
	config, err := os.ReadFile(filepath.Join("..", ".goreleaser.yaml"))
	if err != nil {
		return "", err
	}
	to := filepath.Join(artifacts.dir, name)
	text := strings.ReplaceAll(string(config), "bin/release/", "bin/release-test/") + "\ndist: " + to + "\n"
	text = strings.Replace(text, "goarch: [amd64, arm64]", "goarch: ["+processors+"]", 1)
	if !allPlatforms {
		text = strings.Replace(text, "goos: [linux, darwin, windows]", "goos: [linux]", 1)
	}
	if err := os.WriteFile(to+".yaml", []byte(text), 0o644); err != nil {
		return "", err
	}
	return to, atTop("goreleaser", "release", "--snapshot", "--clean", "--config", to+".yaml")
}

// atTop runs a program at the top of the checkout, with the tools on its PATH.
func atTop(program string, args ...string) error {
	top, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	cmd := exec.Command("env", append([]string{program}, args...)...) // env looks for the program on the new PATH
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "RELEASE="+releaseVersion, "DATE=2026-01-02T03:04:05Z", "SOURCE_DATE_EPOCH=1767323045",
		"PATH="+filepath.Join(top, ".tools", "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// output runs a program and returns what it prints.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// file returns the path of a file of the release, such as linux_amd64.deb.
func file(t *testing.T, suffix string) string {
	t.Helper()
	return filepath.Join(dist(t), "terrapulse_"+strings.TrimPrefix(releaseVersion, "v")+"_"+suffix)
}

func TestRelease_ArchivesHaveTheProgramOfTheirPlatform(t *testing.T) {
	t.Parallel()
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"} {
		if !allPlatforms && !strings.HasPrefix(platform, "linux") {
			continue
		}
		var content map[string][]byte
		program := "terrapulse"
		if strings.HasPrefix(platform, "windows") {
			content, program = unzip(t, file(t, platform+".zip")), "terrapulse.exe"
		} else {
			content = untar(t, file(t, platform+".tar.gz"))
		}
		if len(content[program]) == 0 || len(content["LICENSE"]) == 0 || len(content["README.md"]) == 0 {
			t.Errorf("%s: the archive lacks the program, its license or its description", platform)
		}
		if !bytes.Contains(content[program], []byte(releaseVersion)) {
			t.Errorf("%s: the program does not contain its version", platform)
		}
		if platform != "linux_"+runtime.GOARCH {
			continue
		}
		path := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(path, content[program], 0o755); err != nil {
			t.Fatal(err)
		}
		if out := output(t, path, "version"); out != "terrapulse "+releaseVersion+"\n" {
			t.Errorf("it says %q", out)
		}
	}
}

func TestRelease_ChecksumsCoverEveryFile(t *testing.T) {
	t.Parallel()
	sums := checksums(t, dist(t))
	var files []string
	for _, pattern := range []string{dist(t) + "/*.tar.gz", dist(t) + "/*.zip", dist(t) + "/*.deb", dist(t) + "/*.rpm", dist(t) + "/*.cdx.json", packaged(t) + "/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); sums[filepath.Base(file)] != got {
			t.Errorf("%s: the checksum is %q, want %s", filepath.Base(file), sums[filepath.Base(file)], got)
		}
	}
	if len(files) < 10 || len(files) != len(sums) {
		t.Errorf("%d files and %d checksums", len(files), len(sums))
	}
}

func TestRelease_TwoBuildsAreIdentical(t *testing.T) {
	t.Parallel()
	first := checksums(t, dist(t))
	again, err := goreleaser("again", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	second := checksums(t, again)
	for name, sum := range second {
		if first[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(second) < len(first)/2 {
		t.Errorf("%d of %d files were built again", len(second), len(first))
	}
}

func TestRelease_ListsTheModulesOfEachProgram(t *testing.T) {
	t.Parallel()
	for list, module := range map[string]string{
		file(t, "linux_amd64.cdx.json"): "modernc.org/sqlite", file(t, "linux_arm64.cdx.json"): "modernc.org/sqlite",
		filepath.Join(packaged(t), "reconcile.cdx.json"): "github.com/aws/aws-sdk-go-v2/service/dynamodb",
	} {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			BOMFormat  string
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, c := range bom.Components {
			if names[c.Name] = true; c.Version == "" || !strings.HasPrefix(c.PURL, "pkg:golang/") {
				t.Errorf("%s: %+v", filepath.Base(list), c)
			}
		}
		if bom.BOMFormat != "CycloneDX" || !names[module] || !names["github.com/hashicorp/consul/api"] {
			t.Errorf("%s: %s is missing", filepath.Base(list), module)
		}
	}
}

// The contents of both kinds of packages, with their modes.
var packageContents = map[string]os.FileMode{
	"/usr/bin/terrapulse":                        0o755,
	"/usr/lib/systemd/system/terrapulse.service": 0o644,
	"/etc/terrapulse/environment":                0o600,
	"/etc/terrapulse/tasks":                      0o755 | os.ModeDir,
	"/usr/share/doc/terrapulse/operate.md":       0o644,
	"/usr/share/doc/terrapulse/copyright":        0o644,

	"/usr/share/bash-completion/completions/terrapulse":    0o644,
	"/usr/share/fish/vendor_completions.d/terrapulse.fish": 0o644,
}

// zshFunctions is where the zsh of the systems of a package reads functions that complete.
var zshFunctions = map[string]string{"deb": "/usr/share/zsh/vendor-completions/_terrapulse", "rpm": "/usr/share/zsh/site-functions/_terrapulse"}

func TestRelease_RpmHasProgramUnitAndScripts(t *testing.T) {
	t.Parallel()
	p, err := rpm.Open(file(t, "linux_amd64.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name() != "terrapulse" || p.Architecture() != "x86_64" || p.License() != "Apache-2.0" {
		t.Errorf("%s %s %s", p, p.Architecture(), p.License())
	}
	found := map[string]os.FileMode{}
	for _, f := range p.Files() {
		found[f.Name()] = f.Mode()
		if f.Name() == "/etc/terrapulse/environment" && f.Flags()&rpm.FileFlagNoReplace == 0 {
			t.Error("an upgrade replaces the tokens")
		}
	}
	for name, mode := range packageContents {
		if got, ok := found[name]; !ok || got.Perm() != mode.Perm() || got.IsDir() != mode.IsDir() {
			t.Errorf("%s: mode %v, want %v", name, got, mode)
		}
	}
	if _, ok := found[zshFunctions["rpm"]]; !ok {
		t.Errorf("there is no %s", zshFunctions["rpm"])
	}
	for script, says := range map[string]string{
		p.PreInstallScript(): "useradd", p.PostInstallScript(): "try-restart", p.PreUninstallScript(): "disable --now", p.PostUninstallScript(): "daemon-reload",
	} {
		if !strings.Contains(script, says) {
			t.Errorf("no script contains %q:\n%s", says, script)
		}
	}
	var needs []string
	for _, d := range p.Requires() {
		needs = append(needs, d.Name())
	}
	if !slices.Contains(needs, "shadow-utils") {
		t.Errorf("it needs %v", needs)
	}
}

// dpkg installs, upgrades, removes and purges the package in a folder. Programs of the system, such
// as systemctl, only record how they are called.
func TestRelease_DebIsInstalledUpgradedAndRemoved(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg"); err != nil || os.Getuid() != 0 {
		t.Skip("needs dpkg and root")
	}
	deb := file(t, "linux_"+runtime.GOARCH+".deb")
	root, stubs := t.TempDir(), t.TempDir()
	log := filepath.Join(stubs, "log")
	for _, program := range []string{"getent", "groupadd", "useradd", "systemctl"} {
		text := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s\n[ %s != getent ]\n", program, log, program)
		if err := os.WriteFile(filepath.Join(stubs, program), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/terrapulse", "run/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	state, environment := filepath.Join(root, "var/lib/terrapulse/state"), filepath.Join(root, "etc/terrapulse/environment")
	for _, empty := range []string{filepath.Join(root, "var/lib/dpkg/status"), state} {
		if err := os.WriteFile(empty, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) string {
		t.Helper()
		_ = os.Remove(log)
		cmd := exec.CommandContext(t.Context(), "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-depends"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+stubs+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		calls, _ := os.ReadFile(log)
		return string(calls)
	}

	calls := dpkg("--install", deb)
	if !strings.Contains(calls, "useradd --system --gid terrapulse") || !strings.Contains(calls, "systemctl --no-block try-restart") || strings.Contains(calls, "enable") {
		t.Errorf("installation called:\n%s", calls)
	}
	for name, mode := range packageContents {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, want %v (%v)", name, info, mode, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, zshFunctions["deb"])); err != nil {
		t.Error(err)
	}
	if out := output(t, filepath.Join(root, "usr/bin/terrapulse"), "version"); !strings.Contains(out, releaseVersion) {
		t.Errorf("it says %q", out)
	}
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/terrapulse.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/bin/terrapulse start") {
		t.Errorf("the unit does not start the program of the package: %v", err)
	}

	if err := os.WriteFile(environment, []byte("CONSUL_HTTP_TOKEN=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if calls := dpkg("--install", deb); !strings.Contains(calls, "try-restart") || strings.Contains(calls, "disable") {
		t.Errorf("an upgrade called:\n%s", calls)
	}
	if text, err := os.ReadFile(environment); err != nil || !strings.Contains(string(text), "TOKEN=x") {
		t.Errorf("an upgrade replaced the tokens: %v", err)
	}
	if calls := dpkg("--remove", "terrapulse"); !strings.Contains(calls, "disable --now terrapulse.service") || !strings.Contains(calls, "daemon-reload") {
		t.Errorf("a removal called:\n%s", calls)
	}
	dpkg("--purge", "terrapulse")
	if _, err := os.Stat(environment); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tokens are still there: %v", err)
	}
	if _, err := os.Stat(state); err != nil {
		t.Errorf("Terraform's states are gone: %v", err)
	}
}

// checksums reads the checksums of a release by file.
func checksums(t *testing.T, dist string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	return sums
}

func untar(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, name string) map[string][]byte {
	t.Helper()
	archive, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for _, f := range archive.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
		from.Close()
	}
	return files
}
