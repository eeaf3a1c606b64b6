package rehearsal

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// UnmarshalJSON reads a statement as IAM does: one action or resource may be a text instead of a list.
func (s *Statement) UnmarshalJSON(text []byte) error {
	type plain Statement
	read := struct {
		*plain
		Actions   texts `json:"Action"`
		Resources texts `json:"Resource"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(text, &read)
	s.Actions, s.Resources = read.Actions, read.Resources
	return err
}

// texts is a text, or a list of texts.
type texts []string

func (t *texts) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		*t = texts{""}
		return json.Unmarshal(text, &(*t)[0])
	}
	return json.Unmarshal(text, (*[]string)(t))
}

// Person returns the policy of this name in infra/organisation/people, with the names of this stack instead of its
// placeholders.
func (s *Stack) Person(t testing.TB, name string) Policy {
	t.Helper()
	stack, _, _ := strings.Cut(s.Outputs["Table"], "-Table-")
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(s.Outputs["BundleUrl"], "s3://"), "/")
	api, _, _ := strings.Cut(strings.TrimPrefix(s.Outputs["ApiUrl"], "https://"), ".")
	api, _, _ = strings.Cut(api, "-") // a private API has its endpoint there
	return Person(t, name, "STACK", stack, "BUCKET", bucket, "PREFIX", prefix, "API", api,
		"KEY", "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555", "BOUNDARY", "boundary", "ROLE", "cloudformation", "ARTIFACTS", "artifacts")
}

// Person returns the policy of this name in infra/organisation/people. Each placeholder is followed by what replaces it.
func Person(t testing.TB, name string, placeholders ...string) Policy {
	t.Helper()
	file := filepath.Join(testtools.Root(t), "infra", "organisation", "people", name+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Statement Policy }
	replaced := strings.NewReplacer(append(placeholders, "ACCOUNT", "123456789012", "REGION", "eu-west-1")...).Replace(string(text))
	if err := json.Unmarshal([]byte(replaced), &document); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return document.Statement
}

// Request is a request to AWS.
type Request struct {
	Action         string         `json:"action"`
	Resource       string         `json:"resource"`                 // "*" if the action has none
	Principal      string         `json:"principal,omitempty"`      // a service, or the ARN of a role; some role if empty
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
