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
		if code, said := ask("POST", "/v1/tokens", body); code != want {
			t.Errorf("%s: %d %s", body, code, said)
		}
	}
	code, said = ask("GET", "/v1/tokens", "")
	if code != http.StatusOK || !strings.Contains(said, `"name":"alice"`) || strings.Contains(said, made.Token) || strings.Contains(said, "hash") {
		t.Errorf("%d %s", code, said)
	}
	for _, want := range []int{http.StatusOK, http.StatusNotFound} {
		if code, said := ask("DELETE", "/v1/tokens/alice", ""); code != want {
			t.Errorf("%d %s", code, said)
		}
	}
	some := e.answers(with(map[roles.Role][]string{roles.Administer: {"web-*"}, roles.Approve: {"*"}}))
	if code, said := some("POST", "/v1/tokens", `{"name": "eve"}`); code != http.StatusForbidden || !strings.Contains(said, "may administer only web-*, but needs the role administer for all tasks") {
		t.Errorf("%d %s", code, said)
	}
	e.options.Tokens = nil
	if code, said := e.answers(with(map[roles.Role][]string{roles.Administer: {"*"}}))("GET", "/v1/tokens", ""); code != http.StatusNotFound || !strings.Contains(said, "IAM identifies the callers") {
		t.Errorf("in AWS: %d %s", code, said)
	}
}
