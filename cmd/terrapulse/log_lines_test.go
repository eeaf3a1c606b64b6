package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// logLines returns the messages that the program logs above INFO, with … for
// what they are filled with, and their levels.
func logLines(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for _, dir := range []string{"cmd", "functions", "internal"} {
		err := filepath.WalkDir(filepath.Join(testtools.Root(t), dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && (strings.HasSuffix(path, "test") || strings.HasSuffix(path, "simulate") || strings.HasSuffix(path, "testtools")) {
				return cmpErr(err, fs.SkipDir)
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				level := map[string]string{"Warn": "WARN", "Error": "ERROR"}
				if !ok || level[method.Sel.Name] == "" {
					return true
				}
				if text := pattern(call.Args[0]); strings.Trim(text, "…") != "" {
					lines[text] = level[method.Sel.Name]
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// cmpErr is the error, or the other one if there is none.
func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// pattern is a message as its source has it; what is not literal is ….
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == gotoken.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == gotoken.ADD {
			return pattern(e.X) + pattern(e.Y)
		}
	}
	return "…"
}

func TestLogLines_ThoseForAlertsAreLogged(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "reference", "logs.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (WARN|ERROR) \\| ``? ?(.+?) ?``? \\| .+ \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("docs/reference/logs.md has %d lines for alerts", len(rows))
	}
	logged := logLines(t)
	for _, row := range rows {
		if level, line := row[1], row[2]; logged[line] != level {
			t.Errorf("docs/reference/logs.md has a line that is logged with the level %q: | %s | `%s` |", logged[line], level, line)
		}
	}
}
