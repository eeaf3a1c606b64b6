package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestHelp_OfGroupsFits80Columns(t *testing.T) {
	for _, command := range []string{"", "task", "bundle", "migrate"} {
		var stdout, stderr testtools.Output
		run(t.Context(), append(strings.Fields(command), "-help"), &stdout, &stderr)
		for line := range strings.Lines(stdout.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > columns {
				t.Errorf("%s -help has a line of %d columns: %s", command, n, line)
			}
		}
	}
}

func TestHelp_EachCommandHasExamplesThatParseAndExitCodesIn80Columns(t *testing.T) {
	for _, c := range (&app{}).commands() {
		flags := c.flags
		command := flags.Name()
		if c.examples == nil { // a group
			continue
		}
		var stdout, stderr testtools.Output
		if code := run(t.Context(), append(strings.Fields(command), "-help"), &stdout, &stderr); code != exitOK {
			t.Errorf("%s -help: exit code %d", command, code)
		}
		help := stdout.String()
		if word := regexp.MustCompile(`(?i)\b(gates?|fenc(e|ing)|claim(s|ed)?|leases?)\b`).FindString(help); word != "" {
			t.Errorf("%s -help says %q, a word of the engine, to people", command, word)
		}
		for line := range strings.Lines(help) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > columns {
				t.Errorf("%s -help has a line of %d columns: %s", command, n, line)
			}
		}
		_, examples, ok := strings.Cut(help, "\nExamples:\n")
		examples, codes, ok2 := strings.Cut(examples, "\nExit codes:\n")
		if !ok || !ok2 || !strings.Contains(codes, "  0   success") {
			t.Errorf("%s -help has no examples or no exit codes:\n%s", command, help)
			continue
		}
		for line := range strings.Lines(examples) {
			words := strings.Fields(line)
			if !strings.HasPrefix(strings.TrimSpace(line), ownName+" "+command) {
				t.Errorf("an example of %s is %q", command, line)
				continue
			}
			if err := flags.Parse(words[1+len(strings.Fields(command)):]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}
