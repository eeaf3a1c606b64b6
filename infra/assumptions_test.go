package infra_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var (
	inCode    = regexp.MustCompile("`([^`]+)`")
	inItalics = regexp.MustCompile(`\*([^*]+)\*`)
)

// Each statement about AWS has a source and a symptom. The page names exactly the checks that
// doctor has, and checks of infra/verify-aws.
func TestAssumptions_AgreeWithTheChecksOfDoctor(t *testing.T) {
	checks := doctorChecks(t)
	if len(checks) < 10 {
		t.Fatalf("doctor has the checks %v: does this test search all of them?", checks)
	}
	var named []string
	page, rest, found := strings.Cut(read(t, "docs/develop/aws-assumptions.md"), "\n## Checks that prove no assumption\n")
	if !found {
		t.Fatal("the page has no list of the checks that prove no assumption")
	}
	rows, script := 0, read(t, "infra/verify-aws")
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Terrapulse assumes ") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 {
			t.Errorf("%d cells instead of 4: %s", len(cells), line)
			continue
		}
		if !strings.Contains(cells[1], "](https://") {
			t.Errorf("no source: %s", line)
		}
		if strings.TrimSpace(cells[2]) == "" {
			t.Errorf("it does not say what would show: %s", line)
		}
		covers, scripted := inCode.FindAllStringSubmatch(cells[3], -1), inItalics.FindAllStringSubmatch(cells[3], -1)
		if len(covers)+len(scripted) == 0 && strings.TrimSpace(cells[3]) != "no" {
			t.Errorf("the last cell is no check, and not no: %s", line)
		}
		for _, m := range covers {
			named = append(named, m[1])
		}
		for _, m := range scripted {
			if !strings.Contains(script, "\ncheck "+m[1]+" ") && !strings.Contains(script, "\n\tcheck "+m[1]+" ") {
				t.Errorf("infra/verify-aws has no check %s: %s", m[1], line)
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows are read", rows)
	}
	list, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	for _, m := range inCode.FindAllStringSubmatch(list, -1) {
		if slices.Contains(named, m[1]) {
			t.Errorf("check %s proves an assumption, and is said to prove none", m[1])
		}
		named = append(named, m[1])
	}
	for _, name := range named {
		if !slices.Contains(checks, name) {
			t.Errorf("docs/develop/aws-assumptions.md names check %s, which doctor does not have", name)
		}
	}
	for _, name := range checks {
		if !slices.Contains(named, name) {
			t.Errorf("docs/develop/aws-assumptions.md does not name check %s of doctor", name)
		}
	}
}

// doctorChecks returns the names of all checks of doctor, from its code.
func doctorChecks(t *testing.T) []string {
	t.Helper()
	var names []string
	add := func(literal *ast.CompositeLit) {
		for i, e := range literal.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "Name" {
					continue
				}
				e = kv.Value
			} else if i > 0 {
				continue
			}
			if text, ok := e.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if name, err := strconv.Unquote(text.Value); err == nil {
					names = append(names, name)
				}
			}
		}
	}
	for _, folder := range []string{"internal/aws/reconcilefunction", "internal/aws/stack"} {
		files, err := filepath.Glob(filepath.Join(testtools.Root(t), folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(code, func(n ast.Node) bool {
				literal, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				if isCheck(literal.Type) {
					add(literal)
				}
				if list, ok := literal.Type.(*ast.ArrayType); ok && isCheck(list.Elt) {
					for _, e := range literal.Elts {
						if element, ok := e.(*ast.CompositeLit); ok {
							add(element)
						}
					}
				}
				return true
			})
		}
	}
	for _, k := range remotes.Kinds { // doctor names its check of a driver's system like the system
		names = append(names, strings.ToLower(k.System))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isCheck reports whether an expression is the type check or invoke.Check.
func isCheck(typ ast.Expr) bool {
	switch typ := typ.(type) {
	case *ast.Ident:
		return typ.Name == "check" || typ.Name == "Check"
	case *ast.SelectorExpr:
		return typ.Sel.Name == "Check"
	}
	return false
}
