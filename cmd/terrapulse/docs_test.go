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
	data, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	shared, rest, _ := strings.Cut(doc, "\n## start\n")
	sections := map[string]string{}
	for _, part := range strings.Split("## start\n"+rest, "\n## ") {
		name, text, _ := strings.Cut(strings.TrimPrefix(part, "## "), "\n")
		sections[name] = text
	}
	var names []string // of groups of commands, each with its commands
	for _, m := range regexp.MustCompile(`(\*[a-z]+\*) (?:stands )?for ([a-z, -]+)[;.]`).FindAllStringSubmatch(shared, -1) {
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
			t.Errorf("docs/commands.md has no section for %s", command)
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
			if len(cells) < 4 || !slices.Contains(strings.Split(groups.Replace(strings.TrimSpace(cells[3])), ", "), command) {
				t.Errorf("docs/commands.md does not describe -%s of %s", f.Name, command)
			}
		})
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `-([a-z-]+)").FindAllStringSubmatch(doc, -1) {
		if !known[m[1]] {
			t.Errorf("docs/commands.md describes -%s, which no command has", m[1])
		}
	}
}
