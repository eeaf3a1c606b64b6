package testtools

import (
	"fmt"
	"os"
	"os/exec"
)

// Build compiles a program of this module into a file, as a release does: then tests, `make build`
// and `sam build` compile each package once. More arguments of `go build` may precede.
func Build(to, pkg string, args ...string) error {
	args = append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", to}, args...)
	build := exec.Command("go", append(args, "github.com/terrapulse/terrapulse/"+pkg)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
