//go:build !linux

package consultest

import "os/exec"

// endWithTest does nothing: only Linux can tie a process to its parent. Stop
// ends the server when the test ends.
func endWithTest(*exec.Cmd) {}

func startProcess(cmd *exec.Cmd) error { return cmd.Start() }
