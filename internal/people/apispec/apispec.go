// Package apispec describes the HTTP API. openapi.yaml is the description; the
// types of requests and answers are generated from it. internal/people/api serves the
// API, internal/people/apiclient sends requests to it.
package apispec

import _ "embed"

//go:generate go run -C ../../../tools/oapi-codegen github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config ../../internal/people/apispec/codegen.yaml -o ../../internal/people/apispec/types.gen.go ../../internal/people/apispec/openapi.yaml

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
