//go:build !linux

package terraformcli

// tokenPipes is not set, as the reader of a pipe cannot be identified: the Consul
// backend gets Consul's token from the environment.
const tokenPipes = false

func (d *Dir) readByTerraform(string) bool { return true }
