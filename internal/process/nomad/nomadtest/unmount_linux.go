package nomadtest

import (
	"bufio"
	"os"
	"strings"
	"syscall"
)

// unmount unmounts what an agent that was killed has left mounted below a folder.
func unmount(dir string) {
	file, err := os.Open("/proc/mounts")
	if err != nil {
		return
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // else the removal of the folder fails, and says so
		}
	}
}
