package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

func TestTokens_AreMadeListedAndRevoked(t *testing.T) {
	e := newEngine(t, files)
	ask := e.answers(with(map[roles.Role][]string{roles.Administer: {"*"}}))
	code, said := ask("POST", "/v1/tokens", `{"name": "alice", "expires": "2999-01-01T00:00:00Z", "by": "somebody else"}`)
	var made apispec.TokenCreatedResponse
	if err := json.Unmarshal([]byte(said), &made); err != nil || code != http.StatusCreated || made.Made.By != "token:ci" || !strings.HasSuffix(made.Token, made.Made.End) {
		t.Fatalf("%d %s, %v", code, said, err)
	}
	for body, want := range map[string]int{
		`{"name": "alice"}`: http.StatusConflict, `{"name": "api.token"}`: http.StatusBadRequest, `{"name": "a b"}`: http.StatusBadRequest, `{}`: http.StatusBadRequest,
		`{"name": "bob", "expires": "2001-01-01T00:00:00Z"}`: http.StatusBadRequest, `{"name": "bob", "roles": ["administer"]}`: http.StatusBadRequest,
	} {
		ask.wants(t, "POST", "/v1/tokens", body, want)
	}
	code, said = ask("GET", "/v1/tokens", "")
	if code != http.StatusOK || !strings.Contains(said, `"name":"alice"`) || strings.Contains(said, made.Token) || strings.Contains(said, "hash") {
		t.Errorf("%d %s", code, said)
	}
	for _, want := range []int{http.StatusOK, http.StatusNotFound} {
		ask.wants(t, "DELETE", "/v1/tokens/alice", "", want)
	}
	some := e.answers(with(map[roles.Role][]string{roles.Administer: {"web-*"}, roles.Approve: {"*"}}))
	some.wants(t, "POST", "/v1/tokens", `{"name": "eve"}`, http.StatusForbidden, "may administer only web-*, but needs the role administer for all tasks")
	e.options.Tokens = nil
	e.answers(with(map[roles.Role][]string{roles.Administer: {"*"}})).wants(t, "GET", "/v1/tokens", "", http.StatusNotFound, "IAM identifies the callers")
}
