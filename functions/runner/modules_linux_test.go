package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/gitssh/gitsshtest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// add copies a program of this machine with its libraries into the box.
func (b *box) add(program string) {
	b.t.Helper()
	libraries, _ := exec.Command("ldd", program).Output() // a static program has none
	for _, path := range append(strings.Fields(string(libraries)), program) {
		if !strings.HasPrefix(path, "/") {
			continue
		}
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(b.root, path)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(b.root, path), content, 0o755)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// In a container, git works for a user without a name, and without an SSH client in the image.
func TestProgram_DownloadsPrivateModulesInAContainer(t *testing.T) {
	dir := repository(t)
	overSSH := gitsshtest.Start(t)
	authority := testtools.NewAuthority(t)
	p := startProxy(t, authority, map[string]http.Handler{"git.test": gitHost(t, dir, "deploy", "token")})
	calls := func(source string) string { return fmt.Sprintf("module \"private\" {\n  source = %q\n}\n", source) }
	b := newBox(t, calls("git::https://git.test/web.git"), calls("git::ssh://git@"+overSSH.Addr+dir+"/web.git"))
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	folder, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	core := strings.TrimSpace(string(folder))
	programs := []string{git, "/bin/sh", filepath.Join(core, "git-remote-https")}
	for _, name := range []string{"sed", "uname", "basename"} { // for the scripts of git
		if program, err := exec.LookPath(name); err == nil {
			programs = append(programs, program)
		}
	}
	for _, script := range []string{"git-submodule", "git-sh-setup", "git-sh-i18n", "git-sh-i18n--envsubst"} {
		if _, err := os.Stat(filepath.Join(core, script)); err == nil { // newer versions have fewer
			programs = append(programs, filepath.Join(core, script))
		}
	}
	for _, program := range programs {
		b.add(program)
	}
	ca, err := os.ReadFile(authority.CA)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.root, "etc", "ca.pem"), ca, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	name, held, _ := strings.Cut(secretOf(t, map[string]any{"git_credentials": "https://deploy:token@git.test", "git_ssh_key": overSSH.Key, "git_known_hosts": overSSH.Host}), "=")
	for name, value := range map[string]string{"HTTPS_PROXY": p.server.URL, "SSL_CERT_FILE": "/etc/ca.pem", "GIT_SSL_CAINFO": "/etc/ca.pem", name: held} {
		b.env[name] = value
	}
	b.launch("l1")
	var out testtools.Output
	cmd := b.start("l1", &out)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, task := range []string{"t0", "t1"} {
		if run := b.run("l1", task); run.State != state.RunSucceeded {
			t.Errorf("%s: %+v\n%s", task, run, &out)
		}
	}
}
