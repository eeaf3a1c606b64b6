package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmap lets go of the pages of the program's own file: by the time it has run
// its tasks once, a program of this size has most of them mapped, and waiting
// takes a fraction. The kernel maps them again from its cache as they are used.
// Measured with ten tasks: 46 MB become 27 MB.
func unmap() {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// 00400000-02200000 r-xp 00000000 fd:00 1234 /usr/bin/terrapulse
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[5] != own || strings.Contains(f[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		// An error leaves the pages where they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
	}
}
