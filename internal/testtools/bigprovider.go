package testtools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BigProvider builds a provider with 1,000 types of resources, which is not in a registry: big_thing0
// and so on, each with a name. It notes in the file that BIG_CALLS names what Terraform calls. The Go
// module proxy must be reachable.
func BigProvider(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "terraform-provider-big_v1.0.0")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./big")
	cmd.Dir = filepath.Join(Root(t), "internal", "testtools", "testdata", "providers")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build the large provider: %w\n%s", err, out))
	}
	return program
}
