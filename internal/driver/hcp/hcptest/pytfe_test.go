package hcptest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestPyTFE_CreatesAWorkspaceAppliesAndDeletesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Python")
	}
	t.Parallel()
	hcp := hcptest.New(t)
	module := t.TempDir()
	for name, text := range files("one") {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), testtools.PyTFE(t), "testdata/client.py", module)
	cmd.Env = append(os.Environ(), "TFE_ADDRESS="+hcp.SecureURL, "TFE_TOKEN="+hcp.Token, "SSL_CERT_FILE="+hcp.CA)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if left := hcp.Workspaces(); left != nil {
		t.Errorf("workspaces are left: %q", left)
	}
}
