package state_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guarded are fields of Task that say what a task should do and what stops it, and that
// nothing else has.
var guarded = []string{"Stop", "OnHold", "Forced", "Applied.Doubt", "Attempted", "RemoteRun",
	"Gone", "Failing.RetryAt", "Applied.At", "Former"}

func TestTransitions_NothingElseWritesWhatStopsATask(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(rel, "record/state/") || strings.HasPrefix(rel, "people/") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var to []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				to = n.Lhs
			case *ast.IncDecStmt:
				to = []ast.Expr{n.X}
			}
			for _, e := range to {
				path := types.ExprString(e)
				if slices.ContainsFunc(guarded, func(name string) bool { return strings.Contains(path+".", "."+name+".") }) {
					t.Errorf("%s: %s is written outside of package state: use a method of state.Task", files.Position(e.Pos()), path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
