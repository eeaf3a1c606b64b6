//go:build !linux

package terraformcli

import "time"

// endCommand does nothing: there is no portable way to find the processes,
// and Terraform without Terrapulse ends at its next line of output.
func endCommand(string, func(int, string)) error { return nil }

// awaitEnd does nothing, for the same reason.
func awaitEnd(string, time.Duration) {}
