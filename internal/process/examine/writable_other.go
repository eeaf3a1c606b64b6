//go:build !unix

package examine

// writable is not known here without a change: start finds out.
func writable(string) bool { return true }
