package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// mount puts a small file system of its own at a new folder, where the tests may do that.
func mount(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestNothingIsAppliedWhileTheStoreCannotBeWritten(t *testing.T) {
	disk := mount(t, "size=600k")
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	store := "sqlite:" + filepath.Join(disk, "state.db")
	port := 8080
	more := func() { // a change that the module's file will show
		port++
		s.register("web", fmt.Sprintf("web-%d", port), port, "passing")
	}
	applied := func() bool { return strings.Contains(s.read("lb.txt"), fmt.Sprint(port)) }

	p := s.start("-config-file", file, "-store", store)
	eventually(t, "the first apply", func() bool {
		return applied() && strings.Contains(s.run("status", "-store", store).stdout, "applied")
	})
	ballast := filepath.Join(disk, "ballast")
	os.WriteFile(ballast, make([]byte, 1<<20), 0o600) // as much as fits
	// The room that the store has taken already may do for some changes yet.
	more()
	eventually(t, "it says that the disk is full", func() bool {
		if applied() {
			more()
		}
		return strings.Contains(p.stderr.String(), "no space left on the disk")
	})
	var st result
	eventually(t, "status says that the disk is full", func() bool {
		st = s.run("status", "-store", store)
		return strings.Contains(st.stdout, "no space left on the disk") && strings.Contains(st.stdout, "Leader: none")
	})
	wantCode(t, st, exitOK)
	if strings.Contains(st.stdout, "nothing is watching Consul") {
		t.Errorf("status does not say why nobody leads:\n%s", st.stdout)
	}
	sick := s.run("status", "-health", "-store", store)
	wantCode(t, sick, exitError)
	wantText(t, sick.stderr, "the store cannot be written", "free some space")
	resp, err := http.Get(p.served() + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "the store cannot be written") {
		t.Errorf("health answers %s: %s", resp.Status, body)
	}
	if applied() && !strings.Contains(s.run("runs", "-store", store, "lb").stdout, fmt.Sprintf("web-%d", port)) {
		t.Error("a change was applied that the store knows nothing of")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is applied when there is room again", applied)
	eventually(t, "it is healthy again", func() bool { return s.run("status", "-health", "-store", store).code == exitOK })
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
