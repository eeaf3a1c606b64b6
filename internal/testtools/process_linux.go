package testtools

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// StartWithTest starts a server that the kernel kills when the test process dies, for whatever
// reason. A thread that lives as long as the test process starts it, because the kernel treats the
// end of that thread as the end of the parent.
func StartWithTest(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
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

// processesIn returns the command lines of the processes whose working directory is dir or below it.
func processesIn(dir string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		if cwd, _ := os.Readlink(proc + "/cwd"); cwd == dir || strings.HasPrefix(cwd, dir+"/") {
			args, _ := os.ReadFile(proc + "/cmdline")
			found = append(found, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}
