package gitssh_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/gitssh"
	"github.com/terrapulse/terrapulse/internal/aws/gitssh/gitsshtest"
)

// TestMain runs the test binary as git's SSH client.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "ssh" {
		os.Exit(gitssh.Run(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// file writes a file for this user alone, and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it's a file") // with characters that a shell would change
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clone clones a repository with this client, and returns what git prints.
func clone(t *testing.T, url, key, known string) (out, dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "clone")
	cmd := exec.Command("git", "clone", "--quiet", url, dir)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND="+gitssh.Command(os.Args[0], file(t, key), file(t, known)))
	printed, err := cmd.CombinedOutput()
	return string(printed), dir, err
}

// repository creates a repository with one file.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), bytes.Repeat([]byte("# a module\n"), 50_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "Add a module"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func TestRun_ClonesARepository(t *testing.T) {
	server := gitsshtest.Start(t)
	out, dir, err := clone(t, "ssh://git@"+server.Addr+repository(t), server.Key, server.Host)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(dir, "main.tf")); err != nil || info.Size() != 550_000 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRun_SaysWhyItFails(t *testing.T) {
	server, other := gitsshtest.Start(t), gitsshtest.Start(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	// The line of another server's key for the address of this one.
	replaced := strings.Replace(other.Host, portOf(t, other.Addr), portOf(t, server.Addr), 1)
	for _, tt := range []struct{ name, addr, key, known, want string }{
		{"no repository", server.Addr, server.Key, server.Host, "does not appear to be a git repository"},
		{"unknown host", server.Addr, server.Key, other.Host, "ssh-keyscan -p " + portOf(t, server.Addr) + " 127.0.0.1"},
		{"other key of the host", server.Addr, server.Key, replaced, "another key than the known one"},
		{"key that is not accepted", server.Addr, other.Key, server.Host, "add its public key to the git host"},
		{"no key", server.Addr, "junk", server.Host, "git_ssh_key in the stack's secret contains no private key"},
		{"nobody listens", nobody.Addr().String(), server.Key, server.Host, "connect to 127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := clone(t, "ssh://git@"+tt.addr+"/none", tt.key, tt.known)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestRun_RefusesOptionsThatItDoesNotKnow(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "ProxyCommand=nc", "host", "command"}, "option -o ProxyCommand=nc is not supported"},
		{[]string{"-p"}, "option -p has no value"},
		{[]string{"-p", "ssh", "host", "command"}, `the port "ssh" is not a number`},
		{[]string{"-6", "host"}, "a host and a command are needed"},
	} {
		var errs bytes.Buffer
		if code := gitssh.Run(tt.args, strings.NewReader(""), &errs, &errs); code != 255 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%v: %d: %s", tt.args, code, &errs)
		}
	}
}
