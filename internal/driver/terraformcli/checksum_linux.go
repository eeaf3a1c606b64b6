package terraformcli

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// changeTime returns when a file or its properties changed last. No program can set it.
func changeTime(info os.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return info.ModTime()
}

// identity tells files apart that had the same path.
func identity(info os.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(stat.Dev, stat.Ino)
	}
	return ""
}
