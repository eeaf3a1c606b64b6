package memory

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmap releases the pages of the program's own file, most of which are mapped
// after the first run. The kernel maps them again from its cache when they are
// used. Measured with ten tasks at rest: 43 MB without unmap, 17 to 25 MB with it;
// 36 MB is the promise.
//
// Only mappings that are read-only and have no page that differs from the file are
// released: releasing a page that the loader has written to (as in a
// position-independent program) would lose what it wrote.
func unmap() {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var start, end uint64 // of a mapping of the program
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 0 && !strings.HasSuffix(f[0], ":"):
			// 00400000-02200000 r-xp 00000000 fd:00 1234 /usr/bin/terrapulse
			start, end = 0, 0
			if len(f) < 6 || f[5] != own || strings.Contains(f[1], "w") {
				continue
			}
			from, to, _ := strings.Cut(f[0], "-")
			var err1, err2 error
			start, err1 = strconv.ParseUint(from, 16, 64)
			end, err2 = strconv.ParseUint(to, 16, 64)
			if err1 != nil || err2 != nil {
				start, end = 0, 0
			}
		case end > 0 && slices.Equal(f, []string{"Anonymous:", "0", "kB"}):
			// An error leaves the pages where they are.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
