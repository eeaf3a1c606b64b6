//go:build !windows

package rootmodule

import "io/fs"

// private reports whether only the owner may read. CTS left files of mode 0640.
func private(m fs.FileMode) bool { return m.Perm()&0o077 == 0 }
