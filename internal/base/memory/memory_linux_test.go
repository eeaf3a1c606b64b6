package memory

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The loader of a position-independent program writes to pages of the program and
// makes them read-only. The program crashes without them.
func TestUnmap_KeepsPagesThatTheLoaderHasWritten(t *testing.T) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip("needs /proc")
	}
	defer own.Close()
	page, err := unix.Mmap(int(own.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	page[0] = 'x' // the file begins with 0x7f
	if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	ownFile().unmap()
	if page[0] != 'x' {
		t.Errorf("the page holds %#x, as in the file", page[0])
	}
}
