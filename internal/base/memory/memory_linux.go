package memory

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mappings are those of the program's own file, each with its start and its end.
type mappings [][2]uint64

// ownFile returns the mappings of the program's own file that can be released: those that are read-only and have no
// page that differs from the file. Releasing a page that the loader has written to (as in a position-independent
// program) would lose what it wrote.
func ownFile() (all mappings) {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
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
			all = append(all, [2]uint64{start, end})
		}
	}
	return all
}

// unmap releases the pages, most of which are mapped after the first run. The kernel maps those that are used again
// from its cache, with their neighbors.
func (m mappings) unmap() {
	for _, one := range m {
		// An error leaves the pages where they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(one[0]), uintptr(one[1]-one[0]), unix.MADV_DONTNEED)
	}
}
