package main

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmap lets go of the pages of the program's own file: by the time it has run
// its tasks once, a program of this size has most of them mapped, and waiting
// takes a fraction. The kernel maps them again from its cache as they are used.
// Measured with ten tasks: 46 MB become 27 MB.
//
// Pages that are not as they are in the file would be lost: those that the
// loader has put addresses into, in a position-independent program, are read-only
// by now.
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
	var start, end uint64 // of a mapping of the program's
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
