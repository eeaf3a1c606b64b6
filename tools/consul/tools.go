//go:build tools

// Package tools pins the Consul server that the tests and the demo start.
package tools

import _ "github.com/hashicorp/consul"
