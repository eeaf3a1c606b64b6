package main

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// maxMap is how many elements each list of a map may have.
const maxMap = 1000

// taskMapCommand prints what feeds tasks, and which resources they have.
func (a *app) taskMapCommand() command {
	var api apiFlags
	selected := selection.Map{Limit: maxMap}
	f := a.flagSet("task map")
	api.registerCurrent(f)
	f.StringVar(&selected.Service, "service", "", "Only tasks that read this `service`, by its name or an expression.")
	f.StringVar(&selected.Node, "node", "", "Only tasks that were applied with this `node`, or with a service instance on it.")
	f.StringVar(&selected.Key, "key", "", "Only tasks that read this `key` of Consul's KV store.")
	f.StringVar(&selected.Entry, "entry", "", "Only tasks that read this config `entry`: KIND/NAME.")
	f.StringVar(&selected.Peer, "peer", "", "Only tasks that read services of this `peer`.")
	f.StringVar(&selected.Type, "type", "", "Only tasks that have resources of this `type`.")
	f.StringVar(&selected.Search, "search", "", "Only tasks whose name, sources or types have these `words`.")
	return command{flags: f, synopsis: "Print what feeds tasks, and which resources they have", args: a.tasks(f, api.taskNames), codes: []int{exitOK, exitError, exitMissing, exitFlags},
		examples: []string{"", "-service=web", "-node=node-1", "-type=aws_lb -json", "load-balancer"},
		help: `Usage: terrapulse task map [flags] [TASK]

  Prints what in Consul feeds which tasks, and which resources they have, as
  their latest runs have found out. For at most 10 tasks it also prints the
  addresses of the resources, and the services, instances, nodes and keys that
  the tasks were applied with.
`,
		run: func(args []string) int {
			if len(args) > 0 {
				selected.Task = args[0]
			}
			client, code := a.apiClient(&api)
			if code >= 0 {
				return code
			}
			m, err := client.Map(a.ctx, selected)
			if err != nil {
				return a.fail(exitError, fmt.Errorf("read the map: %w", err))
			}
			if a.json {
				return a.printJSON(m)
			}
			a.printMap(m)
			return exitOK
		},
	}
}

func (a *app) printMap(m apispec.MapResponse) {
	if unknown := apispec.Deref(m.Counts.UnknownNodes); unknown > 0 {
		defer fmt.Fprintf(a.stdout, "Of %d other %s, the nodes are not known before the next apply.\n", unknown, state.Plural(unknown, "task"))
	}
	if len(m.Tasks) == 0 {
		fmt.Fprintln(a.stdout, "No task matches.")
		return
	}
	var t table
	t.row(plain, "TASK", "READS", "RESOURCES")
	for _, task := range m.Tasks {
		t.row(plain, task.Name, sourcesInWords(task), resourcesInWords(task))
	}
	t.print(a.stdout)
	if more := m.Counts.Tasks - len(m.Tasks); more > 0 {
		fmt.Fprintf(a.stdout, "and %d more tasks\n", more)
	}
	if fed := apispec.Deref(m.Entries); len(fed) > 0 {
		fmt.Fprintln(a.stdout)
		var t table
		t.row(plain, "APPLIED WITH", "SERVICE", "NODE", "ADDRESS", "TASK")
		for _, e := range fed {
			t.row(plain, e.Name, dash(e.Service), dash(e.Node), dash(e.Address), e.Task)
		}
		t.print(a.stdout)
		if more := apispec.Deref(m.MoreEntries); more > 0 {
			fmt.Fprintf(a.stdout, "and %d more entries\n", more)
		}
	}
	if found := apispec.Deref(m.Addresses); len(found) > 0 {
		fmt.Fprintln(a.stdout)
		var t table
		t.row(plain, "ADDRESS", "TASK")
		for _, of := range found {
			t.row(plain, of.Address, of.Task)
		}
		t.print(a.stdout)
	}
}

// dash is a text, or - if there is none.
func dash(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}

func sourcesInWords(t apispec.MapTask) string {
	if len(t.Sources) == 0 {
		return "-"
	}
	text := strings.Join(t.Sources, "; ")
	if more := apispec.Deref(t.MoreSources); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func resourcesInWords(t apispec.MapTask) string {
	switch {
	case t.Resources == nil:
		return "not known"
	case *t.Resources == 0:
		return "none"
	}
	return strings.Join(list.Map(t.Types, func(of apispec.MapType) string { return fmt.Sprintf("%s %d", of.Type, of.Count) }), ", ")
}
