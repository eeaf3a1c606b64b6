package terraformcli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// fake writes a program that answers `version -json` like the given Terraform,
// counts how often it is asked in a file, and returns its directory.
func fake(t *testing.T, version string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	script(t, filepath.Join(dir, config.EngineTerraform+exe), fmt.Sprintf(`echo asked >> %q; echo '{"terraform_version": %q}'`, filepath.Join(dir, "asked"), version))
	return dir
}

func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// closedPort is the URL of a port without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// search looks in a driver path and in a directory used as PATH.
func search(t *testing.T, driverPath, onPATH, pinned string) (*Binary, string, error) {
	t.Helper()
	var log bytes.Buffer
	f := finder{
		cfg: config.Terraform{Path: driverPath, Version: pinned},
		log: slog.New(slog.NewTextHandler(&log, nil)),
		lookPath: func(name string) (string, error) {
			path := filepath.Join(onPATH, name)
			if _, err := os.Stat(path); onPATH == "" || err != nil {
				return "", exec.ErrNotFound
			}
			return path, nil
		},
		install: &install{releases: closedPort(t), connect: time.Second},
	}
	b, err := f.find(t.Context())
	return b, log.String(), err
}

func TestFind_RealTerraform(t *testing.T) {
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	t.Setenv("PATH", filepath.Dir(testtools.Terraform(t)))
	t.Setenv("TF_LOG", "TRACE")
	b, err := Find(t.Context(), config.Terraform{Path: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if b.Source != FromEnvironment || b.Version.LessThan(tested) {
		t.Errorf("got %+v", b)
	}
}

func TestFind_RealOpenTofuIfConfigured(t *testing.T) {
	path := testtools.OpenTofu(t)
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	for name, c := range map[string]struct {
		cfg    config.Terraform
		onPATH string
		want   Source
	}{
		"a driver's path that holds tofu": {config.Terraform{Path: filepath.Dir(linkTo(t, path, "tofu"))}, "", FromDriverPath},
		"engine tofu":                     {config.Terraform{Engine: "tofu", Path: t.TempDir()}, filepath.Dir(path), FromEnvironment},
		"engine tofu, its version pinned": {config.Terraform{Engine: "tofu", Path: t.TempDir(), Version: "1.12.6"}, filepath.Dir(path), FromEnvironment},
	} {
		t.Setenv("PATH", c.onPATH)
		b, err := FindLocal(t.Context(), c.cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if b.Source != c.want || b.Program() != "tofu" {
			t.Errorf("%s: got %+v", name, b)
		}
	}
}

// linkTo makes a link of this name, in a directory of its own.
func linkTo(t *testing.T, path, name string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func TestFind_OpenTofuOnlyIfConfiguredOrAlone(t *testing.T) {
	both, onlyTofu := fake(t, "1.11.4"), t.TempDir()
	for _, dir := range []string{both, onlyTofu} {
		script(t, filepath.Join(dir, "tofu"), `echo '{"terraform_version": "1.12.6"}'`)
	}
	for _, c := range []struct {
		name, engine, driverPath, onPATH string
		want                             string // the program; "" for none
	}{
		{"both in the driver's path", "", both, "", "terraform"},
		{"both in the driver's path, engine tofu", "tofu", both, "", "tofu"},
		{"tofu on PATH is not meant by itself", "", t.TempDir(), onlyTofu, ""},
		{"terraform on PATH is not meant by engine tofu", "tofu", t.TempDir(), fake(t, "1.11.4"), ""},
		{"the driver's path counts for more than PATH", "", onlyTofu, both, "tofu"},
	} {
		f := finder{
			cfg: config.Terraform{Engine: c.engine, Path: c.driverPath},
			log: slog.New(slog.DiscardHandler),
			lookPath: func(name string) (string, error) {
				path := filepath.Join(c.onPATH, name)
				_, err := os.Stat(path)
				return path, err
			},
			install: &install{releases: closedPort(t), connect: time.Second},
		}
		b, err := f.find(t.Context())
		switch {
		case c.want == "" && (err == nil || c.engine == "tofu" && !strings.Contains(err.Error(), "install OpenTofu")):
			t.Errorf("%s: got %+v, %v", c.name, b, err)
		case c.want != "" && (err != nil || b.Program() != c.want):
			t.Errorf("%s: got %+v, %v, want %s", c.name, b, err, c.want)
		}
	}
}

func TestFindLocal_InstallsNothing(t *testing.T) {
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	t.Setenv("PATH", filepath.Dir(testtools.Terraform(t)))
	dir := t.TempDir()
	if b, err := FindLocal(t.Context(), config.Terraform{Path: dir}, slog.New(slog.DiscardHandler)); err != nil || b.Source != FromEnvironment {
		t.Errorf("got %+v, %v", b, err)
	}
	t.Setenv("PATH", dir)
	for version, want := range map[string]string{"": "no Terraform in " + dir + " or on PATH", "1.5.7": "no Terraform 1.5.7 in " + dir + " or on PATH"} {
		if _, err := FindLocal(t.Context(), config.Terraform{Path: dir, Version: version}, slog.New(slog.DiscardHandler)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFind_SearchesDriverPathBeforePATH(t *testing.T) {
	old, current := fake(t, "1.5.7"), fake(t, "1.11.4")
	for _, c := range []struct {
		name, driverPath, onPATH, pinned string
		want                             Source
		log                              string
	}{
		{"both", old, current, "", FromDriverPath, ""},
		{"only PATH", t.TempDir(), current, "", FromEnvironment, ""},
		{"the pinned one on PATH", t.TempDir(), old, "1.5.7", FromEnvironment, ""},
		{"another in the driver's path than pinned", current, old, "1.5.7", FromDriverPath, "another version than the configured one"},
		{"a very old one", fake(t, "0.13.7"), "", "", FromDriverPath, "use 1.0 or later"},
		{"a pre-release", fake(t, "1.16.0-alpha1"), "", "", FromDriverPath, ""},
	} {
		b, log, err := search(t, c.driverPath, c.onPATH, c.pinned)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if b.Source != c.want || !filepath.IsAbs(b.Path) {
			t.Errorf("%s: got %+v, want one from %s", c.name, b, c.want)
		}
		if !strings.Contains(log, c.log) || c.log == "" && strings.Contains(log, "WARN") {
			t.Errorf("%s: logged %q", c.name, log)
		}
	}
}

func TestFind_UnusableTerraformIsAnErrorWithAdvice(t *testing.T) {
	garbage := t.TempDir()
	if err := os.WriteFile(filepath.Join(garbage, config.EngineTerraform+exe), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	words := t.TempDir()
	script(t, filepath.Join(words, config.EngineTerraform+exe), "echo hello")
	for _, c := range []struct {
		name, driverPath, onPATH, pinned string
		want                             []string
	}{
		{"no program", garbage, "", "", []string{"incompatible Terraform binary", garbage, "name another directory"}},
		{"another program", words, "", "", []string{"incompatible Terraform binary", words}},
		{"too old", fake(t, "0.12.31"), "", "", []string{"unsupported Terraform version", "0.12.31", "0.13.0 or later"}},
		{"nowhere", t.TempDir(), "", "", []string{"no Terraform in ", "or on PATH", "could not be installed", "install Terraform yourself"}},
		{"too old on PATH", t.TempDir(), fake(t, "0.12.31"), "", []string{"could not be installed"}},
		{"broken on PATH", t.TempDir(), garbage, "", []string{"could not be installed"}},
		{"not the pinned one on PATH", t.TempDir(), fake(t, "1.11.4"), "1.5.7", []string{"no Terraform 1.5.7 in "}},
	} {
		b, _, err := search(t, c.driverPath, c.onPATH, c.pinned)
		if err == nil {
			t.Errorf("%s: found %+v", c.name, b)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(c.driverPath, ".terraform-install-*")); len(left) > 0 {
			t.Errorf("%s: left behind %v", c.name, left)
		}
	}
}

// A firewall that swallows packets is the usual reason why a release cannot be
// fetched: that must not take minutes.
func TestInstall_GivesUpOnSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := install{releases: "http://" + l.Addr().String(), connect: 50 * time.Millisecond}.into(t.Context(), t.TempDir(), "1.5.7")
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(30 * time.Second):
		t.Error("still waiting after 30 s, with a limit of 50 ms")
	}
}

func TestVersion_IsCachedUntilTheBinaryChanges(t *testing.T) {
	dir := fake(t, "1.5.7")
	path := filepath.Join(dir, config.EngineTerraform+exe)
	asked := func() int {
		raw, err := os.ReadFile(filepath.Join(dir, "asked"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(raw, []byte("asked"))
	}
	for range 3 {
		if v, err := Version(t.Context(), path); err != nil || v.String() != "1.5.7" {
			t.Fatalf("got %v, %v", v, err)
		}
	}
	if n := asked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	script(t, path, `echo '{"terraform_version": "1.11.4"}' # longer than before`)
	if v, err := Version(t.Context(), path); err != nil || v.String() != "1.11.4" {
		t.Errorf("got %v, %v for the new binary", v, err)
	}
}

func TestFindInBackground_ReturnsWhatFindReturns(t *testing.T) {
	wait, stop := FindInBackground(t.Context(), config.Terraform{Path: fake(t, "1.6.2")}, slog.New(slog.DiscardHandler))
	defer stop()
	for range 2 {
		if b, err := wait(); err != nil || b.Version.String() != "1.6.2" || b.Source != FromDriverPath {
			t.Fatalf("got %+v, %v", b, err)
		}
	}
}

// What the program has started, which keeps its output open, counts as a part of it.
func TestVersion_ProgramThatHangsIsKilled(t *testing.T) {
	within := versionTimeout
	t.Cleanup(func() { versionTimeout = within })
	versionTimeout = 100 * time.Millisecond
	dir := fake(t, "1.11.4")
	script(t, filepath.Join(dir, config.EngineTerraform+exe), `trap "" INT TERM; sleep 3600; echo '{"terraform_version": "1.11.4"}'`)
	ended := make(chan error, 1)
	go func() {
		_, err := FindLocal(t.Context(), config.Terraform{Path: dir}, slog.New(slog.DiscardHandler))
		ended <- err
	}()
	select {
	case err := <-ended:
		if want := ": it did not end within 100ms, and was killed: remove it, or name another directory"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	case <-time.After(30 * time.Second):
		t.Error("still waiting after 30 s, with a limit of 100 ms")
	}
}
