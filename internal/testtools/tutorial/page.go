// Package tutorial follows tutorials: it runs the commands of a page in their order, and compares
// what they print with what the page shows.
//
// A block with the language console has commands, each after "$ ", and what they print. A block with
// a title is a file, which is written. Neither a time nor an id is compared. "…" in the output
// stands for any text, alone in a line for any lines. A comment before a block says what is special:
// "test: repeat" for a command that is repeated until it prints this, "test: needs an AWS account"
// for commands that cannot be run here.
package tutorial

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Step is a command of a page, or a file that its reader writes.
type Step struct {
	Line    int    // of the page, from 1
	File    string // the name of the file; "" for a command
	Text    string // the command, or the content of the file
	Want    string // what the page shows as output
	Special string // "", "repeat" or "needs an AWS account"
}

// NeedsAccount is the mark of commands that cannot be run without an AWS account.
const NeedsAccount = "needs an AWS account"

var (
	fence    = regexp.MustCompile("^```(\\S*)(?: title=\"([^\"]+)\")?$")
	mark     = regexp.MustCompile(`^<!-- test: (.+) -->$`)
	specials = []string{"repeat", NeedsAccount}
)

// Parse returns the steps of a page.
func Parse(page string) (steps []Step, err error) {
	lines := strings.Split(page, "\n")
	special := ""
	for i := 0; i < len(lines); i++ {
		if m := mark.FindStringSubmatch(lines[i]); m != nil {
			if special = m[1]; !slices.Contains(specials, special) {
				return nil, fmt.Errorf("line %d: unknown mark %q", i+1, special)
			}
			continue
		}
		m := fence.FindStringSubmatch(lines[i])
		if m == nil {
			if special != "" {
				return nil, fmt.Errorf("line %d: no block follows the mark %q", i+1, special)
			}
			continue
		}
		first := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", first)
		}
		block := lines[first:i]
		switch {
		case m[2] != "":
			steps = append(steps, Step{Line: first, File: m[2], Text: strings.Join(block, "\n") + "\n"})
		case m[1] == "console":
			commands, err := console(block, first+1)
			if err != nil {
				return nil, err
			}
			if special == "repeat" && len(commands) != 1 {
				return nil, fmt.Errorf("line %d: a block that is repeated has one command", first)
			}
			for _, c := range commands {
				c.Special = special
				steps = append(steps, c)
			}
		case m[1] == "sh":
			return nil, fmt.Errorf("line %d: commands of a tutorial are in blocks with the language console", first)
		}
		special = ""
	}
	return steps, nil
}

// console returns the commands of a block with what they print.
func console(block []string, line int) (steps []Step, err error) {
	for i := 0; i < len(block); i++ {
		command, is := strings.CutPrefix(block[i], "$ ")
		if !is {
			if len(steps) == 0 {
				return nil, fmt.Errorf("line %d: the block does not begin with a command", line)
			}
			steps[len(steps)-1].Want += block[i] + "\n"
			continue
		}
		step := Step{Line: line + i, Text: command}
		for strings.HasSuffix(step.Text, "\\") && i+1 < len(block) {
			i++
			step.Text += "\n" + block[i]
		}
		steps = append(steps, step)
	}
	return steps, nil
}

var varies = []struct{ pattern, as string }{
	{`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?Z| UTC)?`, "TIME"},
	{`\b\d\d:\d\d(:\d\d(\.\d+)?)?\b`, "TIME"},
	{`\b[0-9a-f]{8,}(-[0-9a-f]{4})*(-[0-9a-f]{12})?\b`, "ID"},
	{`\b(\d+(\.\d+)?(ms|µs|s|m|h|d))+\b`, "DURATION"},
	{`\b\d+(\.\d+)? (KiB|MiB|GiB)\b`, "SIZE"},
	{`-{4,}`, "----"},
	{`[ \t]+`, " "},
}

var variesPatterns = func() (all []*regexp.Regexp) {
	for _, v := range varies {
		all = append(all, regexp.MustCompile(v.pattern))
	}
	return all
}()

// constant replaces what varies from run to run.
func constant(text string) string {
	for i, pattern := range variesPatterns {
		text = pattern.ReplaceAllString(text, varies[i].as)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Fits reports whether output is what a page shows.
func Fits(output, want string) bool {
	pattern := strings.Builder{}
	for line := range strings.Lines(constant(want) + "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`))
	}
	fits, err := regexp.MatchString(`^`+pattern.String()+`$`, constant(output)+"\n")
	return err == nil && fits
}
