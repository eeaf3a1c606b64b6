package rehearsal

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

//go:embed iam.mjs
var iamProgram string

// iam judges requests with a simulator that knows the conditions, and which actions, resources and keys
// belong together.
var iam = server{command: func(t testing.TB) *exec.Cmd {
	cmd := exec.Command("node", "--input-type=module", "--eval", iamProgram)
	cmd.Dir = testtools.IAM(t) // where imports are searched
	return cmd
}}

// Policy are the statements of a role, from its inline and its managed policies.
type Policy []Statement

// Statement is a statement of a policy.
type Statement struct {
	SID       string         `json:"Sid,omitempty"`
	Effect    string         `json:"Effect"`
	Actions   []string       `json:"Action"`
	Resources []string       `json:"Resource"`
	Condition map[string]any `json:"Condition,omitempty"`
}

// Request is a request to AWS.
type Request struct {
	Action         string         `json:"action"`
	Resource       string         `json:"resource"`                 // "*" if the action has none
	Context        map[string]any `json:"context,omitempty"`        // condition keys with a text or texts
	ResourcePolicy any            `json:"resourcePolicy,omitempty"` // of the resource, such as the trust policy of a role
}

// Records is a request for records of these collections.
func Records(action, table string, collections ...string) Request {
	return Request{Action: action, Resource: table, Context: map[string]any{"dynamodb:LeadingKeys": collections}}
}

// Limits are policies that deny what a role allows.
type Limits struct {
	Boundary any   // the permissions boundary of the role, if it has one
	Controls []any // service control policies of the organisation
}

// Allows reports whether IAM allows a request of the role.
func (p Policy) Allows(t testing.TB, r Request) bool {
	t.Helper()
	return p.Judge(t, Limits{}, r)[0]
}

// Judge reports for each request of the role whether IAM allows it. Requests that cannot exist fail the test: each
// action has to exist, with such resources and condition keys.
func (p Policy) Judge(t testing.TB, limits Limits, requests ...Request) []bool {
	t.Helper()
	asked := map[string]any{"requests": requests}
	if len(p) > 0 {
		asked["role"] = Document(p)
	}
	if limits.Boundary != nil {
		asked["boundary"] = limits.Boundary
	}
	if len(limits.Controls) > 0 {
		asked["controls"] = limits.Controls
	}
	var verdicts []string
	iam.request(t, asked, &verdicts)
	allowed := make([]bool, len(requests))
	for i, verdict := range verdicts {
		allowed[i] = verdict == "Allowed"
	}
	return allowed
}

// Document is a policy of these statements.
func Document(statements any) any {
	return map[string]any{"Version": "2012-10-17", "Statement": statements}
}

// LeadingKeys are the patterns of the collections that a statement is limited to, if it is.
func (s Statement) LeadingKeys() (patterns []string, limited bool) {
	like, _ := s.Condition["ForAllValues:StringLike"].(map[string]any)
	keys, limited := like["dynamodb:LeadingKeys"].([]any)
	for _, key := range keys {
		patterns = append(patterns, fmt.Sprint(key))
	}
	return patterns, limited
}

func (s Statement) String() string { return fmt.Sprintf("%s %v on %v", s.SID, s.Actions, s.Resources) }

func (r Request) String() string {
	context, _ := json.Marshal(r.Context)
	return fmt.Sprintf("%s on %s with %s", r.Action, r.Resource, context)
}
