package infra_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Every action, resource and condition key of the policies exists, and they belong together: a right
// with a wrong name would be missing silently.
func TestPolicies_HaveActionsResourcesAndConditionsOfIAM(t *testing.T) {
	slow(t)
	template, roles := filepath.Join(testtools.Root(t), "template.yaml"), filepath.Join(testtools.Root(t), "examples", "ci", "github", "roles.yaml")
	if found, ok := lintPolicies(t, template, roles); !ok {
		t.Error(found)
	}
	text := read(t, "template.yaml")
	for _, tt := range []struct{ name, is, becomes, want string }{
		{"an action", "dynamodb:ConditionCheckItem]", "dynamodb:ConditionCheck]", "UNKNOWN_ACTION"},
		{"a service", "Action: ecs:DescribeTasks", "Action: ecss:DescribeTasks", "UNKNOWN_PREFIX"},
		{"a condition key", `"ecs:CreateAction": RunTask`, `"ecs:CreationAction": RunTask`, "UNKNOWN_CONDITION_FOR_ACTION"},
		{"a resource", "Resource: !Sub arn:${AWS::Partition}:ecs:${AWS::Region}:${AWS::AccountId}:task-definition/", "Resource: !Sub arn:${AWS::Partition}:ecs:${AWS::Region}:${AWS::AccountId}:task-definitions/", "RESOURCE_MISMATCH"},
		{"an operator", `Condition: { ArnEquals: { "ecs:cluster"`, `Condition: { ArnIs: { "ecs:cluster"`, "UNKNOWN_OPERATOR"},
	} {
		if !strings.Contains(text, tt.is) {
			t.Errorf("%s: the template does not have %s", tt.name, tt.is)
			continue
		}
		wrong := filepath.Join(t.TempDir(), "template.yaml")
		if err := os.WriteFile(wrong, []byte(strings.Replace(text, tt.is, tt.becomes, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if found, ok := lintPolicies(t, wrong); ok || !strings.Contains(found, tt.want) {
			t.Errorf("%s that does not exist is not found: %s", tt.name, found)
		}
	}
}

// lintPolicies checks the policies of templates as `make lint` does. It returns what was found, and
// whether all is well.
func lintPolicies(t *testing.T, templates ...string) (found string, ok bool) {
	t.Helper()
	policies, err := runIAM(t, testtools.Python(t), "policies.py", nil, templates...)
	if err != nil {
		t.Fatalf("read the policies: %v\n%s", err, policies)
	}
	out, err := runIAM(t, testtools.Parliament(t), "lint.py", policies)
	return string(out), err == nil
}

// runIAM runs a script of infra/iam. It returns what it prints, with the errors if it fails.
func runIAM(t *testing.T, python, script string, in []byte, arguments ...string) ([]byte, error) {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, append([]string{filepath.Join(testtools.Root(t), "infra", "iam", script)}, arguments...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	err := cmd.Run()
	if err != nil {
		return append(out.Bytes(), said.Bytes()...), err
	}
	return out.Bytes(), nil // the translator also warns
}

// Rows of a second table would accept nothing.
func TestFindings_ArePutInOneTable(t *testing.T) {
	const table = "\n| finding | in | why |\n|---|---|---|\n| `CKV_AWS_1` | `Bucket` | reason |\n"
	for n, want := range []string{"has 0 tables of findings", "", "has 2 tables of findings"} {
		page := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(page, []byte("# Security\n"+strings.Repeat(table, n)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := runIAM(t, testtools.Python(t), "findings.py", nil, page) // without input, it always fails
		if refused := strings.Contains(string(out), "tables of findings"); refused != (want != "") || !strings.Contains(string(out), want) {
			t.Errorf("with %d tables, it prints %s", n, out)
		}
	}
}
