package testtools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestFolder_IsRemovedAfterTheProcessesThatWorkInIt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	done := filepath.Join(t.TempDir(), "done")
	t.Run("a test whose program has left a process", func(t *testing.T) {
		cmd := exec.Command("sh", "-c", "sleep 0.3; touch file && touch "+done)
		cmd.Dir = filepath.Join(testtools.Folder(t), "task")
		if err := os.Mkdir(cmd.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = cmd.Wait() }()
	})
	if _, err := os.Stat(done); err != nil {
		t.Errorf("the folder was removed before the process had ended: %v", err)
	}
}
