//go:build !linux

package rehearsal

import (
	"context"
	"os/exec"
	"testing"
)

// NoPodman returns why images cannot be built and run here.
func NoPodman() string { return "images are run on Linux" }

// Podman returns a podman command.
func Podman(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "podman", args...)
}

// Image is not available here.
func Image(t testing.TB) string {
	t.Skip(NoPodman())
	return ""
}
