package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

var (
	codeOfPage = regexp.MustCompile("(?ms)^ *```[^\n]*\n(.*?)^ *```$|`([^`\n]+)`")
	// A command of a shell that runs terrapulse, to its end: the line, a comment or the next command.
	invocation = regexp.MustCompile(`(?m)(?:^|[|;&(] *)(?:\$ +)?(?:sudo +)?(?:[A-Z_]+=\S+ +)*terrapulse +([^\n|;&#)]+)`)
	makeCall   = regexp.MustCompile(`(?m)(?:^|[|;&(] *)(?:\$ +)?make +([a-z][a-z-]*)`)
	flagOfLine = regexp.MustCompile(`(?:^|[\s\[])--?([a-z][a-z-]*)`)
	quotedText = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// codeOfPages returns the code of each page that users or developers read.
func codeOfPages(t *testing.T) map[string][]string {
	t.Helper()
	all, top := map[string][]string{}, testtools.Root(t)
	add := func(file string) {
		text, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range codeOfPage.FindAllStringSubmatch(string(text), -1) {
			all[file] = append(all[file], m[1]+m[2])
		}
	}
	add("README.md")
	add("CONTRIBUTING.md")
	for _, folder := range []string{"docs", "examples", "infra"} {
		err := fs.WalkDir(os.DirFS(top), folder, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(file, ".md") {
				add(filepath.FromSlash(file))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestDocs_CommandsOfTerrapulseExistWithTheirFlags(t *testing.T) {
	commands, tried := (&app{}).commands(), 0
	for file, code := range codeOfPages(t) {
		for _, block := range code {
			for _, m := range invocation.FindAllStringSubmatch(strings.ReplaceAll(block, "\\\n", " "), -1) {
				line := strings.TrimSpace(quotedText.ReplaceAllString(m[1], "TEXT"))
				if !regexp.MustCompile(`^[a-z]`).MatchString(line) { // flags alone are an old form, and … leaves something out
					continue
				}
				tried++
				i := slices.IndexFunc(commands, func(c command) bool {
					return c.examples != nil && (line + " ")[:min(len(line)+1, len(c.flags.Name())+1)] == c.flags.Name()+" "
				})
				if i < 0 {
					t.Errorf("%s has `terrapulse %s`: there is no such command", file, line)
					continue
				}
				for _, f := range flagOfLine.FindAllStringSubmatch(line, -1) {
					if f[1] != "help" && f[1] != "h" && commands[i].flags.Lookup(f[1]) == nil {
						t.Errorf("%s has `terrapulse %s`: the command has no flag -%s", file, line, f[1])
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d commands were found", tried)
	}
}

func TestDocs_TargetsOfMakeExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(testtools.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for file, code := range codeOfPages(t) {
		for _, block := range code {
			for _, m := range makeCall.FindAllStringSubmatch(block, -1) {
				tried++
				if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
					t.Errorf("%s has `make %s`: there is no such target", file, m[1])
				}
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d calls of make were found", tried)
	}
}
