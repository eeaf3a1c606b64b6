//go:build !linux

package terraformcli

import "time"

// endLeftovers does nothing: there is no portable way to find the processes,
// and Terraform without Terrapulse ends at its next line of output.
func endLeftovers(string) error { return nil }

// awaitEnd does nothing, for the same reason.
func awaitEnd(string, time.Duration) {}
