//go:build tools

// Package tools pins oapi-codegen, which `go generate ./internal/apispec` runs.
package tools

import _ "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"
