package internal

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href|srcset)="([^"]+)"`)
	markdownHeading = regexp.MustCompile(`^#{1,6} +(.+)$`)
	inlineCode      = regexp.MustCompile("``[^`]+(?:`[^`]+)*``|`[^`]*`")
	notInAnchor     = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	linkText        = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// prose are the lines of a page outside of code blocks.
func prose(text string) (lines []string) {
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch start := strings.TrimLeft(line, " "); {
		case fence == "" && strings.HasPrefix(start, "```"):
			fence = "```"
		case fence != "" && strings.HasPrefix(start, fence):
			fence = ""
		case fence == "":
			lines = append(lines, line)
		}
	}
	return lines
}

// anchorsOf are the anchors of the headings of a page, as GitHub makes them.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range prose(text) {
		m := markdownHeading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		anchor := strings.ToLower(strings.TrimSpace(linkText.ReplaceAllString(m[1], "$1")))
		anchor = strings.ReplaceAll(notInAnchor.ReplaceAllString(anchor, ""), " ", "-")
		unique := anchor
		for n := 1; anchors[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors[unique] = true
	}
	return anchors
}

// pages are all Markdown files of the repository, by their paths with slashes.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, content := range repository(t) {
		if strings.HasSuffix(name, ".md") {
			all[name] = content
		}
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(root, "examples", "*", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(examples, deeper...) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = string(content)
	}
	return all
}

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	checked := 0
	for name, content := range all {
		for _, line := range prose(content) {
			for _, m := range markdownLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
				target := m[1] + m[2]
				if strings.Contains(target, ":") { // https:, mailto:
					continue
				}
				checked++
				if err := followed(all, name, target); err != nil {
					t.Errorf("%s links to %s: %v", name, target, err)
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d links were found", checked)
	}
}

// followed returns why a link of a page leads nowhere.
func followed(all map[string]string, from, target string) error {
	file, anchor, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return fmt.Errorf("there is no %s", to)
	}
	if anchor == "" || !strings.HasSuffix(to, ".md") {
		return nil
	}
	if !anchorsOf(all[to])[anchor] {
		return fmt.Errorf("%s has no heading %s", to, anchor)
	}
	return nil
}

var (
	// A path of a page, in a message, a comment or a setting, with the anchor of a heading.
	namedPage = regexp.MustCompile(`\bdocs/[\w./-]+\.md(#[\w-]+)?`)
	// A page in a message or a template, below the folder docs.
	messagePage = regexp.MustCompile(`(?:\bdocs\.Page\(|\{\{page )"([\w./#-]+)"`)
)

func TestDocs_PagesThatFilesNameExist(t *testing.T) {
	all, named := pages(t), 0
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "dist", "node_modules"}, name):
			return fs.SkipDir
		case !entry.Type().IsRegular() || slices.Contains([]string{".webp", ".zip", ".sum", ".svg"}, path.Ext(name)):
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil || bytes.IndexByte(content, 0) >= 0 { // a program
			return err
		}
		targets := namedPage.FindAllString(string(content), -1)
		for _, m := range messagePage.FindAllStringSubmatch(string(content), -1) {
			targets = append(targets, "docs/"+m[1])
		}
		for _, target := range targets {
			named++
			if err := followed(all, "README.md", target); err != nil {
				t.Errorf("%s names %s: %v", file, target, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 100 {
		t.Errorf("only %d names of pages were found", named)
	}
}

// A user of a package has no folder docs: a message names the address of a page.
func TestDocs_MessagesNameTheAddressesOfPages(t *testing.T) {
	named := 0
	for name, content := range repository(t) {
		if first, _, _ := strings.Cut(name, "/"); !slices.Contains([]string{"cmd", "internal", "functions"}, first) || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		calls := strings.Count(content, "docs.Page(")
		if named += calls; calls != len(messagePage.FindAllString(content, -1)) {
			t.Errorf("%s: give docs.Page the name of a page as a literal, so that this test finds it", name)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			for _, page := range namedPage.FindAllString(text.Value, -1) {
				t.Errorf("%s: name %s with docs.Page, which has its address", name, page)
			}
			return true
		})
	}
	if named < 10 {
		t.Errorf("only %d names of pages were found", named)
	}
}

func TestDocs_ReferencePagesAreShort(t *testing.T) {
	for name, content := range pages(t) {
		if lines := strings.Count(content, "\n"); path.Dir(name) == "docs/reference" && lines > 350 {
			t.Errorf("%s has %d lines: split it", name, lines)
		}
	}
}

// Each folder of docs has a page from which a reader finds the others of the folder.
func TestDocs_FirstPageOfAFolderLinksToEveryOther(t *testing.T) {
	all := pages(t)
	for _, folder := range []string{"docs", "docs/reference", "docs/develop", "docs/tutorials"} {
		linked := map[string]bool{}
		for _, m := range markdownLink.FindAllStringSubmatch(all[folder+"/README.md"], -1) {
			file, _, _ := strings.Cut(m[1], "#")
			linked[path.Join(folder, file)] = true
		}
		for name := range all {
			if path.Dir(name) == folder && path.Base(name) != "README.md" && !linked[name] {
				t.Errorf("%s/README.md does not link to %s", folder, name)
			}
		}
	}
}

// The glossary has the words that somebody learns before production.
func TestDocs_GlossaryIsShortAndSorted_AndSaysWhereToReadMore(t *testing.T) {
	entry := regexp.MustCompile(`^- \*\*([a-z -]+)\*\*: [A-Z].*\. \[[^\]]+\]\([^)]+\)$`)
	var terms []string
	for _, line := range prose(pages(t)["docs/glossary.md"]) {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		m := entry.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("the glossary has an entry that is not a term, its meaning and a link: %s", line)
			continue
		}
		terms = append(terms, m[1])
	}
	if !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
		t.Errorf("the glossary is not in alphabetical order: %q", terms)
	}
	if len(terms) == 0 || len(terms) > 20 {
		t.Errorf("the glossary has %d words, want at most 20", len(terms))
	}
}
