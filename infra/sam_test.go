package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// `sam build` works if SAM copies the checkout first, as it does without samconfig.toml, and the
// output of `sam deploy --guided` changes no tracked file.
func TestSAM_BuildsAndDeploysWithoutTouchingATrackedFile(t *testing.T) {
	root := testtools.Root(t)
	for _, target := range []string{"build-ReconcileFunction", "build-TrustLayer"} {
		cmd := exec.CommandContext(t.Context(), "make", "--makefile", filepath.Join(root, "Makefile"), "--dry-run", target)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "ARTIFACTS_DIR="+cmd.Dir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "'"+root) || strings.Contains(string(out), "'dev'") {
			t.Errorf("%s in a copy: %v\n%s", target, err, out)
		}
	}
	git := exec.CommandContext(t.Context(), "git", "check-ignore", "--no-index", "samconfig.toml")
	git.Dir = root
	if out, err := git.CombinedOutput(); err != nil {
		t.Errorf("git does not ignore samconfig.toml: %v\n%s", err, out)
	}
	git = exec.CommandContext(t.Context(), "git", "ls-files", "--error-unmatch", "samconfig.toml")
	git.Dir = root
	if out, err := git.CombinedOutput(); err == nil {
		t.Errorf("git tracks %s", out)
	}
	if !strings.Contains(read(t, "samconfig.example.toml"), "build_in_source = true") {
		t.Error("samconfig.example.toml is not what this test was written for")
	}
}
