package terraformcli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestReader_CountsWhatTerraformPrints(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       state.Changes
	}{
		{"nothing", "", state.Changes{}},
		{"unknown words", "All done! 3 things were made.", state.Changes{}},
		{"no changes", "\nNo changes. Your infrastructure matches the configuration.\n", state.Changes{}},
		{"a plan", `
  # module.a.local_file.x["a b \" # c"] will be created
  # module.a.local_file.y will be updated in-place
  # module.a.local_file.z is tainted, so must be replaced
  # module.a.local_file.r must be replaced
  # module.a.local_file.q will be replaced, as requested
  # module.a.local_file.d will be destroyed
  # (because local_file.d is not in configuration)
  # module.a.local_file.e (deposed object 1a2b3c4d) will be destroyed
  # data.x.y will be read during apply
  # (config refers to values not yet known)
  # a.b has moved to a.c
  # a.i will be imported
  # a.n will be frobnicated soon
Plan: 1 to import, 4 to add, 1 to change, 5 to destroy.
`, state.Changes{Add: 4, Change: 1, Destroy: 5, Resources: []state.Resource{
			{Address: `module.a.local_file.x["a b \" # c"]`, Action: "create"}, {Address: "module.a.local_file.y", Action: "update"}, {Address: "module.a.local_file.z", Action: "replace"},
			{Address: "module.a.local_file.r", Action: "replace"}, {Address: "module.a.local_file.q", Action: "replace"}, {Address: "module.a.local_file.d", Action: "delete"},
			{Address: "module.a.local_file.e", Action: "delete"}, {Address: "data.x.y", Action: "read"}, {Address: "a.b", Action: "move"}, {Address: "a.i", Action: "import"}, {Address: "a.n", Action: "will be frobnicated soon"},
		}}},
		{"removed without a destroy", ` # terraform_data.a will no longer be managed by Terraform, but will not be destroyed
 # (destroy = false is set in the configuration)
  # a.b will be removed from the OpenTofu state but will not be destroyed
`, state.Changes{Resources: []state.Resource{{Address: "terraform_data.a", Action: "forget"}, {Address: "a.b", Action: "forget"}}}},
		{"an apply", "Apply complete! Resources: 1 imported, 1 added, 2 changed, 3 destroyed.", state.Changes{Add: 1, Change: 2, Destroy: 3}},
		{"an apply without changes", "Apply complete! Resources: 0 added, 0 changed, 0 destroyed.", state.Changes{}},
		{"a destroy", "Destroy complete! Resources: 3 destroyed.", state.Changes{Destroy: 3}},
		{"a number that is too large", "Plan: 99999999999999999999 to add, 2 to change.", state.Changes{Change: 2}},
	} {
		r := new(reader)
		for line := range strings.SplitSeq(c.text, "\n") {
			r.line(line)
		}
		if diff := cmp.Diff(c.want, r.Changes); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestReader_NotesThePlan(t *testing.T) {
	for name, text := range map[string]string{
		"changes":     "  # a.b will be created\nPlan: 1 to add, 0 to change, 0 to destroy.\na.b: Creating...",
		"no changes":  "No changes. Your infrastructure matches the configuration.\n\nApply complete! Resources: 0 added, 0 changed, 0 destroyed.",
		"one output":  "Changes to Outputs:\n  + o = 1\n\nYou can apply this plan to save these new output values to the Terraform state",
		"a full plan": "Plan: 1 to add, 0 to change, 0 to destroy.\n\nChanges to Outputs:\n  + o = 1",
	} {
		noted := 0
		r := &reader{planned: func() { noted++ }}
		for line := range strings.SplitSeq(text, "\n") {
			r.line(line)
		}
		if noted == 0 {
			t.Errorf("%s: the plan is not noted", name)
		}
	}
}

func TestMessages_AreWithoutDecoration(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"one in a frame", "╷\n│ Error: Bad thing\n│ \n│   on main.tf line 1:\n│    1: x\n│ \n│ Because.\n╵\n", "Bad thing\n  on main.tf line 1:\n   1: x\nBecause."},
		{"a warning before it", "\nWarning: Old\n\nold text\n\nError: New\n\ntext\n", "New\ntext"},
		{"the same twice", "Error: A\n\nError: A\n\nError: B\n", "A\nB"},
		{"no diagnostic", "panic: everything\n", "panic: everything"},
		{"nothing", "", ""},
	} {
		if diff := cmp.Diff(c.want, messages(undecorated(c.text))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	long := messages(strings.Repeat("Error: "+strings.Repeat("é", 3000)+"\n", 2) + "Error: other\n")
	if len(long) > messageLimit+100 || !strings.Contains(long, "more errors") {
		t.Errorf("a message of %d bytes", len(long))
	}
}

func TestOutput_IsWrittenInWholeLinesWithoutSecrets(t *testing.T) {
	var log strings.Builder
	o := output{log: &log, scrub: newScrubber(Options{VarJSON: []byte(`{"a": {"tokens": ["first-secret-long", "first", "-----KEY-----\nline2\n", 5, "ab"]}}`)})}
	w := o.stdout()
	for _, part := range []string{"x fir", "st-secret-long y first z ab 5\r\n", "", "line2\n-----KEY-----\nend"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	want := "x (redacted) y (redacted) z ab 5\n(redacted)\n(redacted)\nend\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Error(diff)
	}
}
