//go:build !linux

package testtools

import "os/exec"

// StartWithTest starts a server. Only Linux ends it with a test process that
// was killed.
func StartWithTest(cmd *exec.Cmd) error { return cmd.Start() }
