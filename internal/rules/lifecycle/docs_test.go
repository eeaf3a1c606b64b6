package lifecycle_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

var update = flag.Bool("update", false, "write the tables in docs")

// The tables of phases and reasons are made from this package, so that they say what
// the program does.
func TestDocs_TablesAreCurrent(t *testing.T) {
	var phases, runs, waits []string
	for _, p := range lifecycle.Phases {
		phases = append(phases, fmt.Sprintf("| `%s` | %s |", p.Phase, p.Means))
	}
	for _, r := range lifecycle.Reasons {
		if r.Runs {
			runs = append(runs, fmt.Sprintf("| `%s` | %s |", r.Code, r.Means))
			continue
		}
		waits = append(waits, fmt.Sprintf("| `%s` | %s | %s |", r.Code, r.Means, r.Until))
	}
	var events, renames []string
	for event, name := range lifecycle.Events {
		codes := map[lifecycle.Effect][]string{}
		for _, s := range lifecycle.Stops {
			effect, code := s.On[event], "`"+string(s.Reason)+"`"
			if !slices.Contains(codes[effect], code) {
				codes[effect] = append(codes[effect], code)
			}
		}
		row := fmt.Sprintf("| %s |", name)
		for _, effect := range []lifecycle.Effect{lifecycle.Ends, lifecycle.Deferred, lifecycle.Holds, lifecycle.Refused} {
			row += " " + cmp.Or(strings.Join(codes[effect], ", "), "–") + " |"
		}
		events = append(events, row)
	}
	for _, s := range lifecycle.Stops {
		renames = append(renames, fmt.Sprintf("| %s | %s |", s.Name, s.Rename))
	}
	for _, r := range lifecycle.Renames {
		renames = append(renames, fmt.Sprintf("| %s | %s |", r.Before, r.After))
	}
	diagram := []string{"stateDiagram-v2"}
	for _, s := range lifecycle.RunSteps {
		from, to := string(s.From), string(s.To)
		if s.From == "" {
			from = "[*]"
		}
		diagram = append(diagram, fmt.Sprintf("    %s --> %s: %s", from, to, s.When))
	}
	current(t, "architecture.md", "```mermaid\n", append(diagram, "```"))
	current(t, "reference/reasons.md", "| event | ends | request waits | becomes `held` | refused |\n|---|---|---|---|---|\n", events)
	current(t, "removal.md", "| before the rename | under the new name |\n|---|---|\n", renames)
	current(t, "reference/commands-tasks.md", "| phase | meaning |\n|---|---|\n", phases)
	current(t, "reference/reasons.md", "| code | the task runs because |\n|---|---|\n", runs)
	current(t, "reference/reasons.md", "| code | the task does not run because | it runs when |\n|---|---|---|\n", waits)
}

// current compares the rows below a head with those that they should be.
func current(t *testing.T, name, head string, rows []string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", name)
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), head)
	if !ok {
		t.Fatalf("%s has no table with the head %q", path, head)
	}
	table, after, _ := strings.Cut(rest, "\n\n")
	want := strings.Join(rows, "\n")
	if *update {
		if err := os.WriteFile(path, []byte(before+head+want+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(want, table); diff != "" {
		t.Errorf("docs/%s is not what internal/rules/lifecycle says; run go generate ./internal/rules/lifecycle (-want +got):\n%s", name, diff)
	}
}
