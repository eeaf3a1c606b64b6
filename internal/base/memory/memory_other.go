//go:build !linux

package memory

func unmap() {}
