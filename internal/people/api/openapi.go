package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// described is the description of the API, read when it is first needed.
var described = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(apispec.Document)
	if err != nil {
		panic(err) // the program was built with it
	}
	return doc
})

// valid has handle get only requests that fit their description. Others are
// answered in the words of the library that Consul-Terraform-Sync uses, as text,
// as it does.
func valid(path, method string, handle handler) handler {
	return func(r *http.Request) (any, error) {
		doc := described()
		item := doc.Paths.Value(path)
		if path != "/tasks" { // Consul-Terraform-Sync refuses other types there; curl -d says that it sends a form
			r.Header.Set("Content-Type", "application/json")
		}
		input := &openapi3filter.RequestValidationInput{
			Request:    r,
			PathParams: map[string]string{"name": r.PathValue("name"), "id": r.PathValue("id")},
			Route:      &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
			// The server has checked tokens, and in AWS IAM has.
			Options: &openapi3filter.Options{SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		input.Options.WithCustomSchemaErrorFunc(schemaFault)
		err := openapi3filter.ValidateRequest(r.Context(), input)
		var limit *http.MaxBytesError
		switch {
		case errors.As(err, &limit):
			return nil, tooLarge(limit)
		case err != nil:
			return nil, &refusal{status: http.StatusBadRequest, plain: true, text: err.Error()}
		}
		return handle(r)
	}
}

// withBody returns a handler that gets the decoded body of a valid request.
func withBody[T any](handle func(*http.Request, T) (any, error)) handler {
	return func(r *http.Request) (any, error) {
		var asked T
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil { // the request fits its description: this does not happen
			return nil, fmt.Errorf("read the request: %w", err)
		}
		return handle(r, asked)
	}
}

// schemaFault says where a value does not fit its schema, without the schema.
func schemaFault(err *openapi3.SchemaError) string {
	pointer := err.JSONPointer()
	if len(pointer) == 0 {
		return err.Reason
	}
	return fmt.Sprintf("Error at %q: %s", "/"+strings.Join(pointer, "/"), err.Reason)
}

// plain makes text of an answer.
type plain struct{ http.ResponseWriter }

func (p plain) WriteHeader(status int) {
	p.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p.ResponseWriter.WriteHeader(status)
}

// getOpenAPI answers with the description.
func (a *api) getOpenAPI(*http.Request) (any, error) { return described(), nil }
