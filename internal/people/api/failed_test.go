package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestAPI_CountsRequestsThatItCannotAnswer(t *testing.T) {
	e := newEngine(t, files)
	failed := 0
	e.options.Failed = func() { failed++ }
	e.serve()
	status(t, e.ask("GET", "/v1/tasks/nope", ""), http.StatusNotFound)
	status(t, e.ask("POST", "/v1/tasks", "{"), http.StatusBadRequest)
	if failed > 0 {
		t.Errorf("%d refused requests count", failed)
	}
	e.Control.Base = func(context.Context) (*config.Config, error) { return nil, errors.New("the table does not answer") }
	status(t, e.ask("GET", "/v1/tasks", ""), http.StatusInternalServerError)
	if failed != 1 {
		t.Errorf("%d requests count", failed)
	}
}
