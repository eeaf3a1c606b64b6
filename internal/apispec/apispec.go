// Package apispec describes the HTTP API. openapi.yaml is the description; the
// types of requests and answers are generated from it. internal/api serves the
// API, internal/apiclient sends requests to it.
package apispec

import _ "embed"

//go:generate go run -C ../../tools/oapi-codegen github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config ../../internal/apispec/codegen.yaml -o ../../internal/apispec/types.gen.go ../../internal/apispec/openapi.yaml

// Document is openapi.yaml.
//
//go:embed openapi.yaml
var Document []byte

// Deref returns what p points to, or the zero value: the value of an optional field.
func Deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
