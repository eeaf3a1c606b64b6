package consultest

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// endWithTest makes the kernel end the process when the test process dies,
// however that happens.
func endWithTest(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// startProcess starts the process from a thread that lives as long as the test
// process: the kernel takes the end of that thread for the end of the parent.
func startProcess(cmd *exec.Cmd) error {
	launcher := launcherThread()
	err := make(chan error)
	launcher <- func() { err <- cmd.Start() }
	return <-err
}

var launcherThread = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})
