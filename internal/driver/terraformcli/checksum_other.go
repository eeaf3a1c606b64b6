//go:build !linux

package terraformcli

import (
	"os"
	"time"
)

// changeTime returns when a file changed last.
func changeTime(info os.FileInfo) time.Time { return info.ModTime() }

// identity returns nothing: the times of a file must do.
func identity(os.FileInfo) string { return "" }
