//go:build !linux

package terraform

// KeepPrivate does nothing here.
func KeepPrivate() error { return nil }
