package registry

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServices_AreRelativeToTheAnswer(t *testing.T) {
	answer := `{"providers.v1": "/v1/providers/", "modules.v1": "https://modules.example.com/v1/", "login.v1": {"client": "cli"}}`
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/terraform.json", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/at/services.json", http.StatusFound)
	})
	mux.HandleFunc("/at/services.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "https://")
	got, err := Services(t.Context(), server.Client(), host)
	if err != nil || len(got) != 2 || got["providers.v1"].String() != server.URL+"/v1/providers/" || got["modules.v1"].String() != "https://modules.example.com/v1/" {
		t.Errorf("%v, %v", got, err)
	}
	answer = "<html>"
	if _, err := Services(t.Context(), server.Client(), host); err == nil || !strings.Contains(err.Error(), "read https://"+host) {
		t.Errorf("of a page: %v", err)
	}
}

func TestGet_SendsTheHeaderAndReturnsTheStatus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	if _, err := Get(t.Context(), server.Client(), server.URL, http.Header{"Authorization": {"Bearer t"}}); err != nil {
		t.Error(err)
	}
	_, err := Get(t.Context(), server.Client(), server.URL, nil)
	if status, ok := errors.AsType[*StatusError](err); !ok || status.Code != http.StatusUnauthorized || !strings.Contains(err.Error(), "answers 401 Unauthorized") {
		t.Errorf("without it: %v", err)
	}
}
