//go:build !linux

package nomadtest

func unmount(string) {}
