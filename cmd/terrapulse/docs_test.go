package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestTheCommandReferenceIsComplete(t *testing.T) {
	shared, doc := commandPage(t, "commands.md"), ""
	sections := map[string]string{}
	for _, page := range []string{"commands.md", "commands-files.md", "commands-instance.md", "commands-json.md", "commands-tasks.md"} {
		text := commandPage(t, page)
		doc += text
		for _, part := range strings.Split(text, "\n## ")[1:] {
			name, text, _ := strings.Cut(part, "\n")
			if sections[name] != "" {
				t.Errorf("two pages have a section %s", name)
			}
			sections[name] = text
			if row := "| [`" + name + "`](" + page + "#" + strings.ReplaceAll(name, " ", "-") + ") |"; page != "commands-json.md" && page != "commands.md" && !strings.Contains(shared, row) {
				t.Errorf("docs/reference/commands.md has no row that begins with %s", row)
			}
		}
	}
	var names []string // of groups of commands, each with its commands and other groups
	for _, m := range regexp.MustCompile(`(\*[a-z]+\*) (?:stands )?for ([a-z, *-]+)[;.]`).FindAllStringSubmatch(shared, -1) {
		names = append(names, m[1], m[2])
	}
	groups := strings.NewReplacer(names...)
	known := map[string]bool{}
	for _, c := range (&app{}).commands() {
		flags := c.flags
		command := flags.Name()
		if c.examples == nil { // a group
			continue
		}
		if sections[command] == "" {
			t.Errorf("docs/reference has no section for the command %s", command)
		}
		flags.VisitAll(func(f *flag.Flag) {
			if hidden(f) {
				return
			}
			known[f.Name] = true
			row := regexp.MustCompile("(?m)^\\| `-" + f.Name + "[=`].*$")
			if row.MatchString(sections[command]) {
				return
			}
			line := row.FindString(shared)
			cells := strings.Split(line, "|")
			if len(cells) < 4 || !slices.Contains(strings.Split(groups.Replace(groups.Replace(strings.TrimSpace(cells[3]))), ", "), command) {
				t.Errorf("docs/reference does not describe -%s of the command %s", f.Name, command)
			}
		})
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `-([a-z-]+)").FindAllStringSubmatch(doc, -1) {
		if !known[m[1]] {
			t.Errorf("docs/reference describes -%s, which no command has", m[1])
		}
	}
}

// commandPage is a page of the reference about commands.
func commandPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "reference", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
