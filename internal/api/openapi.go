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

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// described is the description of the API, read when it is first needed.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(apispec.Document)
	if err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	return doc, nil
})

// valid has handle get only requests that fit their description. Others are
// answered in the words of the library that Consul-Terraform-Sync uses, as text,
// as it does.
func valid(path, method string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		doc, err := described()
		if err != nil {
			refuse(w, r, http.StatusInternalServerError, "%s", err)
			return
		}
		item := doc.Paths.Value(path)
		input := &openapi3filter.RequestValidationInput{
			Request:    r,
			PathParams: map[string]string{"name": r.PathValue("name"), "id": r.PathValue("id")},
			Route:      &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
			// The server has checked tokens, and in AWS IAM has.
			Options: &openapi3filter.Options{SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		input.Options.WithCustomSchemaErrorFunc(schemaFault)
		err = openapi3filter.ValidateRequest(r.Context(), input)
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			refuse(w, r, http.StatusRequestEntityTooLarge, "the request body is too large: at most %d bytes are read", tooLarge.Limit)
		case err != nil:
			w = plain{w}
			refuse(w, r, http.StatusBadRequest, "%s", err)
		default:
			handle(w, r)
		}
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
func (a *api) getOpenAPI(w http.ResponseWriter, r *http.Request) {
	served, err := inJSON()
	if err != nil {
		a.fail(w, r, "", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(served)
}

var inJSON = sync.OnceValues(func() ([]byte, error) {
	doc, err := described()
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
})
