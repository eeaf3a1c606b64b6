package reconcilefunction

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// entries are those of the audit record, the latest first.
func (s *stack) entries() []audit.Entry {
	s.t.Helper()
	all, _, err := audit.List(s.t.Context(), s.store, audit.Filter{Since: time.Now().Add(-48 * time.Hour), Until: time.Now().Add(48 * time.Hour), Limit: 1000}, func(audit.Entry) bool { return true })
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func TestAudit_SaysWhichPlansAndRunsAreInvoked(t *testing.T) {
	const draft = `{"name": "new", "module": "./m", "condition": {"services": {"names": ["a"]}}}`
	for payload, want := range map[string]string{
		`{"mode":"inspect","tasks":["db"],"by":"ann@desk"}`: "plan db  ann@desk (not proven)",
		`{"mode":"inspect","tasks":["db","web"]}`:           "plan db  an invocation of the function, plan web  an invocation of the function",
		`{"mode":"inspect","by":"token:boss"}`:              "plan  for all enabled tasks token:boss (not proven)",
		`{"mode":"once","tasks":["db"],"by":"ann@desk"}`:    "run db  ann@desk (not proven)",
		`{"mode":"reconcile"}`:                              "",
		`{"mode":"inspect","draft":` + draft + `}`:          "plan new of a definition that the request has, and that is not in force an invocation of the function",
	} {
		s := newStack(t, "db", "web")
		h := s.process()
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "a1b2"})
		if _, err := h.Handle(ctx, json.RawMessage(payload)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
		var got []string
		for _, e := range s.entries() {
			got = append(got, fmt.Sprintf("%s %s %s %s", e.Action, e.Task, e.Detail, e.By))
			if e.Via != audit.Invoked || e.Proof != identity.None || e.Request != "a1b2" {
				t.Errorf("%s: %+v", payload, e)
			}
		}
		if joined := strings.Join(got, ", "); joined != want && strings.Join([]string{got[len(got)-1], got[0]}, ", ") != want {
			t.Errorf("%s leaves %q, want %q", payload, joined, want)
		}
	}
}

func TestAudit_EntryOfTheAPIIsEnoughIfItIsAboutTheSame(t *testing.T) {
	s := newStack(t, "db", "web")
	h := s.process()
	written := func(e audit.Entry, ago time.Duration) string {
		ctx, err := audit.Note(audit.With(t.Context(), audit.Actor{Identity: identity.OfToken("ann"), Via: audit.API}), s.store, e, "token:ann", time.Now().Add(-ago))
		if err != nil {
			t.Fatal(err)
		}
		return audit.Of(ctx).Noted
	}
	for _, tt := range []struct {
		name, noted string
		more        int
	}{
		{"the entry of the API", written(audit.Entry{Action: audit.Plan, Task: "db"}, 0), 0},
		{"one about another task", written(audit.Entry{Action: audit.Plan, Task: "web"}, 0), 1},
		{"one about something else", written(audit.Entry{Action: audit.Hold, Task: "db"}, 0), 1},
		{"an old one", written(audit.Entry{Action: audit.Plan, Task: "db"}, time.Hour), 1},
		{"none", "20261126T172439.123456Z-none", 1},
		{"nonsense", "x", 1},
	} {
		had := len(s.entries())
		s.must(h, fmt.Sprintf(`{"mode":"inspect","tasks":["db"],"noted":%q}`, tt.noted))
		if more := len(s.entries()) - had; more != tt.more {
			t.Errorf("with %s, the function writes %d entries, want %d", tt.name, more, tt.more)
		}
	}
}
