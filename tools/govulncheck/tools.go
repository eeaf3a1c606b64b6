//go:build tools

// Package tools pins govulncheck, which `make lint` runs.
package tools

import _ "golang.org/x/vuln/cmd/govulncheck"
