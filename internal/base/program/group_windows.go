package program

import (
	"os/exec"
	"strconv"
)

// group makes Windows kill the program with all processes that it started.
func group(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return killGroup(cmd) }
}

func killGroup(cmd *exec.Cmd) error {
	return exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}
