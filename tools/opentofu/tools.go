//go:build tools

// Package tools pins the OpenTofu for `make test-tofu`. It is built from source, because
// HashiCorp's releases do not contain it.
package tools

import _ "github.com/opentofu/opentofu/cmd/tofu"
