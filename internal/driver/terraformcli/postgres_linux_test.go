package terraformcli

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestBackend_PostgresHoldsStates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	url, query := postgres(t)
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "pg", Body: config.Body{Attributes: attributes{"conn_str": text(url)}}}
	f.startOver()
	if got := query("SELECT name FROM terraform_remote_state.states"); got != "web" {
		t.Errorf("the database holds the states %q", got)
	}
}

// postgres runs a PostgreSQL server, if one is installed, until the test ends.
// It returns the server's URL and what asks it.
func postgres(t *testing.T) (url string, query func(string) string) {
	t.Helper()
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(installed) == 0 {
		t.Skip("no PostgreSQL server is installed")
	}
	bin := installed[len(installed)-1]
	dir, err := os.MkdirTemp("/tmp", "pg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	// It refuses to run as root.
	var as *syscall.Credential
	if os.Getuid() == 0 {
		nobody, err := user.Lookup("postgres")
		if err != nil {
			t.Skip(err)
		}
		uid, _ := strconv.Atoi(nobody.Uid)
		gid, _ := strconv.Atoi(nobody.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := program("initdb", "-D", data, "-A", "trust", "-U", "terraform", "-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := strconv.Itoa(testtools.FreePort(t))
	server := program("postgres", "-D", data, "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	if err := testtools.StartWithTest(server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once
		_ = server.Wait()
	})
	url = fmt.Sprintf("postgres://terraform@127.0.0.1:%s/postgres?sslmode=disable", port)
	waitFor(t, "PostgreSQL takes connections", func() bool { return program("pg_isready", "-d", url).Run() == nil })
	return url, func(statement string) string {
		out, err := program("psql", "-At", "-d", url, "-c", statement).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", statement, err, out)
		}
		return strings.TrimSpace(string(out))
	}
}
