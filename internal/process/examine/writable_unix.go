//go:build unix

package examine

import "golang.org/x/sys/unix"

// writable reports whether this user may write to a file or folder.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
