//go:build tools

// Package tools pins the OpenTofu with which `make test-tofu` runs the tests.
// HashiCorp's releases have none: it is built from source.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"
