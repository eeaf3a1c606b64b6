package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maxComment is how many bytes of Markdown a comment on GitHub takes, with room for what a script adds.
const maxComment = 60_000

// maxRemarks is after how many bytes the list of changed settings ends.
const maxRemarks = 30_000

// asMarkdown is what came of plans as a comment on a pull request: a table, and the plans below it.
func asMarkdown(planned []inspectedTask, c comparison) string {
	var b strings.Builder
	changing, failed, refused := 0, 0, 0
	for _, p := range planned {
		switch {
		case p.Refused:
			refused++
		case p.Error != "":
			failed++
		case p.Some:
			changing++
		}
	}
	fmt.Fprintf(&b, "### Terrapulse: %d of %s planned, %d with changes, %d failed", len(planned)-refused, tasksOf(c.tasks), changing, failed)
	if refused > 0 {
		fmt.Fprintf(&b, ", %d not planned", refused)
	}
	b.WriteString("\n\n")
	if len(planned) == 0 {
		b.WriteString("No definition of a task differs from what is in force.\n")
	} else {
		b.WriteString("| task | plan | what would happen |\n|---|---|---|\n")
	}
	for _, p := range planned {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(named(p)), cell(inShort(p)), cell(verdictOf(p)))
	}
	if len(c.gone) > 0 {
		fmt.Fprintf(&b, "\nNot in these files: %s. If the instance has them from task files, a merge removes them.\n", cell(state.Some(c.gone, "and")))
	}
	if c.hidden > 0 {
		fmt.Fprintf(&b, "\n%s.\n", cell(c.leftOut()))
	}
	for i, line := range c.remarks() {
		if i == 0 {
			b.WriteString("\n")
		}
		if b.Len() > maxRemarks {
			fmt.Fprintf(&b, "- %d more: run terrapulse inspect\n", len(c.remarks())-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", cell(line))
	}
	left := maxComment - b.Len()
	for i, p := range planned {
		text := cmp.Or(p.Error, p.Plan)
		if text == "" || p.Refused {
			continue
		}
		share := left / (len(planned) - i)
		section := details(p, text, share)
		b.WriteString(section)
		left -= len(section)
	}
	return b.String()
}

func named(p inspectedTask) string {
	if p.New {
		return p.Task + " (new)"
	}
	return p.Task
}

// inShort is a plan in a few words.
func inShort(p inspectedTask) string {
	switch {
	case p.Refused:
		return "not planned"
	case p.Error != "":
		return "failed"
	case p.Changes == nil || !p.Some:
		return "no changes"
	}
	return apiview.ChangesOf(p.Changes).ToDo()
}

func verdictOf(p inspectedTask) string {
	switch {
	case p.Error != "":
		return state.CutTo(strings.SplitN(p.Error, "\n", 2)[0], 300)
	case p.Verdict != nil:
		return p.Verdict.Text
	}
	return ""
}

// cell is a text in a table. Nothing in it is markup.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "@", "@\u200b", "*", `\*`, "_", `\_`).Replace(text)
}

// details is a plan that people unfold, with at most so many bytes.
func details(p inspectedTask, text string, most int) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	head := fmt.Sprintf("\n<details><summary>%s: %s</summary>\n\n%s\n", cell(p.Task), cell(inShort(p)), fence)
	tail := fmt.Sprintf("\n%s\n\n</details>\n", fence)
	if room := max(0, most-len(head)-len(tail)-100); len(text) > room {
		lines := strings.Count(text[min(room, len(text)):], "\n") + 1
		text = state.CutTo(text, room) + fmt.Sprintf("\n(%d more lines: run terrapulse inspect)", lines)
	}
	return head + text + tail
}
