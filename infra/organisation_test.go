package infra_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// people are requests of those who deploy a stack with the tag team and with a boundary, and who call its API.
func people(s *rehearsal.Stack) []rehearsal.Request {
	api := arn("lambda", "function:"+s.Functions["ApiFunction"].Name)
	tag := []any{"aws:RequestTag/team", "network", "aws:TagKeys", []string{"team"}}
	return []rehearsal.Request{
		ask("dynamodb:CreateTable", arn("dynamodb", "table/new"), tag...),
		ask("ecs:RegisterTaskDefinition", arn("ecs", "task-definition/bounds-runner:1"), tag...), ask("lambda:CreateFunction", api, tag...),
		ask("logs:CreateLogGroup", arn("logs", "log-group:new"), tag...), ask("sqs:CreateQueue", arn("sqs", "new"), tag...),
		ask("iam:CreateRole", role("new"), "iam:PermissionsBoundary", "arn:aws:iam::123456789012:policy/boundary"),
		ask("lambda:CreateFunctionUrlConfig", api, "lambda:FunctionUrlAuthType", "AWS_IAM"), ask("lambda:InvokeFunctionUrl", api, "lambda:FunctionUrlAuthType", "AWS_IAM"),
		ask("execute-api:Invoke", arn("execute-api", "abc/terrapulse/GET/ui/")),
	}
}

// Policies of a strict organisation deny what the documentation says, and nothing else.
func TestRoles_UnderThePoliciesOfAnOrganisation(t *testing.T) {
	stack := bounds(t)
	requests, roles := requested(t, stack), maps.Clone(stack.Roles)
	roles["people"] = rehearsal.Policy{{Effect: "Allow", Actions: []string{"*"}, Resources: []string{"*"}}}
	requests["people"] = people(stack)
	action := regexp.MustCompile("`([a-z-]+:[A-Za-z]+)`")
	rows := table(t, "docs/security.md", "policy of the organisation")
	for _, row := range rows[1:] {
		file := regexp.MustCompile(`\((?:https://[^)]*/)?([a-z-]+\.json)\)`).FindStringSubmatch(row[0])
		if file == nil {
			t.Fatalf("%s links to no policy", row[0])
		}
		documented := map[string]bool{}
		for _, m := range action.FindAllStringSubmatch(row[1], -1) {
			documented[m[1]] = true
		}
		limits := rehearsal.Limits{Controls: []any{json.RawMessage(read(t, "infra/organisation/"+file[1]))}}
		for role, policy := range roles {
			for i, allowed := range policy.Judge(t, limits, requests[role]...) {
				if r := requests[role][i]; !allowed && !documented[r.Action] {
					t.Errorf("%s denies %s: %s", file[1], role, r)
				} else if allowed && documented[r.Action] {
					t.Errorf("%s does not deny %s: %s", file[1], role, r)
				}
			}
		}
	}
}

// Each policy that denies the stack nothing denies what it is for.
func TestRoles_PoliciesOfAnOrganisationDenyWhatTheyAreFor(t *testing.T) {
	anything := rehearsal.Policy{{Effect: "Allow", Actions: []string{"*"}, Resources: []string{"*"}}}
	for file, r := range map[string]rehearsal.Request{
		"regions":               ask("dynamodb:CreateTable", "arn:aws:dynamodb:us-west-2:123456789012:table/new"),
		"boundaries":            ask("iam:CreateRole", role("new")),
		"encryption-in-transit": ask("s3:GetObject", object("some-prefix/current"), "aws:SecureTransport", "false"),
	} {
		limits := rehearsal.Limits{Controls: []any{json.RawMessage(read(t, "infra/organisation/"+file+".json"))}}
		if !anything.Allows(t, r) || anything.Judge(t, limits, r)[0] {
			t.Errorf("%s does not deny %s", file, r)
		}
	}
}

// A policy that demands tags can exempt the two requests of the stack that have none, and nothing else.
func TestRoles_TagsAreDemandedOfAllButTwoRequests(t *testing.T) {
	stack := bounds(t)
	exempt := strings.NewReplacer("ACCOUNT", "123456789012", "role/STACK", "role"+rolePath+"bounds").Replace(read(t, "infra/organisation/tags-exempt.json"))
	limits := rehearsal.Limits{Controls: []any{json.RawMessage(exempt)}}
	untagged := slices.DeleteFunc(people(stack), func(r rehearsal.Request) bool { return r.Context["aws:RequestTag/team"] == nil })
	for i := range untagged {
		untagged[i].Context = nil
	}
	for of, requests := range requested(t, stack) {
		policy := stack.Roles[of]
		for i := range requests {
			requests[i].Principal = roleOf(stack, of)
		}
		for i, allowed := range policy.Judge(t, limits, requests...) {
			if !allowed {
				t.Errorf("it denies %s: %s", of, requests[i])
			}
		}
		others := slices.Clone(untagged)
		if of != "ReconcileRole" {
			others = append(others, ask("ecs:RunTask", arn("ecs", "task-definition/bounds-runner:7")))
		}
		if of != "InstallRole" {
			others = append(others, ask("ecs:CreateCluster", arn("ecs", "cluster/new")))
		}
		for i := range others {
			others[i].Principal = roleOf(stack, of)
		}
		for i, allowed := range (rehearsal.Policy{{Effect: "Allow", Actions: []string{"*"}, Resources: []string{"*"}}}).Judge(t, limits, others...) {
			if allowed {
				t.Errorf("it does not deny %s: %s", of, others[i])
			}
		}
	}
}

// The permissions boundary of the documentation allows each action that a role of the stack needs, and no other.
func TestRoles_WithinTheBoundaryOfTheDocumentation(t *testing.T) {
	stack := bounds(t)
	var boundary struct{ Statement []struct{ Action []string } }
	text := json.RawMessage(read(t, "infra/organisation/boundary.json"))
	if err := json.Unmarshal(text, &boundary); err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	for role, requests := range requested(t, stack) {
		for i, allowed := range stack.Roles[role].Judge(t, rehearsal.Limits{Boundary: text}, requests...) {
			if !allowed {
				t.Errorf("it denies %s: %s", role, requests[i])
			}
		}
		for _, action := range actionsOf(stack.Roles[role]) {
			needed[action] = true
		}
	}
	if actions := slices.Sorted(maps.Keys(needed)); !slices.Equal(boundary.Statement[0].Action, actions) {
		t.Errorf("it allows %q, want %q", boundary.Statement[0].Action, actions)
	}
}
