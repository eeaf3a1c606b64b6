package terraformcli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSockets_OnlyThisUserReachesProviders(t *testing.T) {
	f := newFixture(t, `
terraform {
  required_providers {
    time = {
      source = "hashicorp/time"
    }
  }
}
variable "services" {
  type = any
}
resource "time_sleep" "while_someone_looks" {
  create_duration = "3s"
  provisioner "local-exec" { command = "stat -c '%a %n' $TMPDIR" }
}
`)
	temp, err := os.MkdirTemp("/tmp", "tp") // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	t.Setenv("TMPDIR", temp)
	d := f.open()
	f.init(d, true)
	f.render("api")
	done := make(chan error, 1)
	go func() {
		_, err := d.Apply(t.Context())
		done <- err
	}()

	var socket string
	for socket == "" {
		select {
		case err := <-done:
			t.Fatalf("the apply has ended before a provider's socket was seen: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		open, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Skip("needs /proc/net/unix")
		}
		for _, line := range strings.Split(string(open), "\n") {
			fields := strings.Fields(line)
			if path := fields[max(len(fields)-1, 0):]; len(path) == 1 && strings.HasPrefix(path[0], temp+"/terrapulse-") {
				socket = path[0]
			}
		}
	}
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket lies in %s: %v, %v", filepath.Dir(socket), info, err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if want := "700 " + filepath.Dir(socket); !strings.Contains(f.log.String(), want) {
		t.Errorf("Terraform's temporary directory is not %s:\n%s", want, f.log.String())
	}
	if _, err := os.Stat(filepath.Dir(socket)); err == nil {
		t.Error("the directory is left behind")
	}
}

func TestSockets_LongPathOfTemporaryFiles(t *testing.T) {
	f := newFixture(t, fileModule)
	temp := filepath.Join(t.TempDir(), strings.Repeat("a", 92))
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	d := f.open()
	f.init(d, true)
	f.render("api", "web")
	if got := f.apply(d); got.Add != 1 {
		t.Errorf("got %+v", got)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
