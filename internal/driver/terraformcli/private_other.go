//go:build !linux

package terraformcli

// KeepPrivate does nothing here.
func KeepPrivate() error { return nil }
