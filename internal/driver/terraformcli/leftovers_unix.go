//go:build !windows

package terraformcli

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// hold makes a file and keeps it locked until let is called or this process
// ends; the processes that it starts do not inherit the lock. Without a lock
// there is no file either.
func hold(path string) (let func()) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return func() {}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		os.Remove(path)
	}
	return func() { f.Close() }
}

// abandoned reports whether a directory was made by scratch in a process of
// this user that has ended, and was not changed since before. It is held for
// the caller then.
func abandoned(dir string, before time.Time) (let func(), ok bool) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !info.ModTime().Before(before) || !own(info) {
		return nil, false
	}
	return seize(filepath.Join(dir, scratchMark))
}

// seize locks a file that hold has made in a process of this user that has ended.
func seize(path string) (let func(), ok bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	mark, err := f.Stat()
	if err != nil || !mark.Mode().IsRegular() || !own(mark) || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return func() { f.Close() }, true
}

// own reports whether a file is this user's.
func own(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == uint32(os.Geteuid())
}
