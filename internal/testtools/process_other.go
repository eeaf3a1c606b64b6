//go:build !linux

package testtools

import "os/exec"

// StartWithTest starts a server. Only on Linux does it end when the test process is killed.
func StartWithTest(cmd *exec.Cmd) error { return cmd.Start() }
