package testtools

import (
	"testing"
	"time"
)

// Folder returns a temporary folder for the programs of a test. Before it is removed, the processes
// end that work in it: a program that was killed may have left some, which still write there.
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		const patience = 30 * time.Second
		for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			left := processesIn(dir)
			if len(left) == 0 {
				return
			}
			if time.Now().After(until) {
				t.Errorf("%s after the end of the test, these processes work in %s: %q", patience, dir, left)
				return
			}
		}
	})
	return dir
}
