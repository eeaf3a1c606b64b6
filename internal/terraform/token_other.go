//go:build !linux

package terraform

// tokenPipes says that it cannot be found out who reads a pipe: Consul's token
// reaches the Consul backend by the environment.
const tokenPipes = false

func (d *Dir) readByTerraform(string) bool { return true }
