//go:build !linux

package rehearsal

import (
	"context"
	"os/exec"
	"testing"
)

// NoPodman says why images can be neither built nor run here.
func NoPodman() string { return "images are run on Linux" }

// Podman is a command of podman.
func Podman(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "podman", args...)
}

// Image is not built here.
func Image(t testing.TB) string {
	t.Skip(NoPodman())
	return ""
}
