//go:build linux || darwin

package diskspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// Free returns how many bytes this process can still write to the disk of a file.
func Free(path string) (free uint64, known bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, false
	}
	blocks := fs.Bavail
	if os.Geteuid() == 0 {
		blocks = fs.Bfree
	}
	return blocks * uint64(fs.Bsize), true
}
