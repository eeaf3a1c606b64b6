package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/graph"
	"github.com/terrapulse/terrapulse/internal/people/overview"
)

// graphFormats are how the order of tasks is written.
var graphFormats = map[string]func(*graph.Graph, io.Writer) error{"text": (*graph.Graph).Text, "dot": (*graph.Graph).Dot, "mermaid": (*graph.Graph).Mermaid}

var graphFormatNames = []string{"text", "dot", "mermaid"}

// taskGraphCommand prints which tasks come after which.
func (a *app) taskGraphCommand() command {
	var api apiFlags
	var files configFlags
	format := "text"
	f := a.flagSet("task graph")
	api.registerCurrent(f)
	files.register(f)
	f.StringVar(&format, "format", format, "The `format`: text, dot (for Graphviz) or mermaid.")
	return command{flags: f, synopsis: "Print which tasks come after which", codes: []int{exitOK, exitError, exitMissing, exitFlags, exitConfig},
		examples: []string{"", onFile, "-stack=network -format mermaid", "-format dot | dot -Tsvg > tasks.svg"},
		values:   map[string]complete.Predictor{"format": complete.PredictSet(graphFormatNames...)},
		help: `Usage: terrapulse task graph [flags]

  Prints the order of the tasks: those with the key "after", and those that
  they come after. What comes after a task is below it. With -config-file or
  -config-dir it reads task files and contacts nothing. Otherwise it asks a
  running instance or a deployment in AWS, and also prints the phases.
`,
		run: func([]string) int {
			write, ok := graphFormats[format]
			if !ok {
				return a.fail(exitFlags, fmt.Errorf("-format %q: use %s", format, strings.Join(graphFormatNames, ", ")))
			}
			order, code := a.order(&api, &files)
			if code >= 0 {
				return code
			}
			if a.json {
				return a.printJSON(struct {
					Tasks   []apispec.OrderedTask `json:"tasks"`
					Matches map[string][]string   `json:"matches"`
				}{order.Tasks, order.Matches})
			}
			if len(order.Tasks) == 0 && format == "text" {
				fmt.Fprintln(a.stdout, "No task comes after another one.")
				return exitOK
			}
			if err := write(graph.Of(order.Tasks, order.Matches), a.stdout); err != nil {
				return a.fail(exitError, err)
			}
			return exitOK
		},
	}
}

// order reads the order of tasks from files if they are named, and otherwise from an API.
func (a *app) order(api *apiFlags, files *configFlags) (order apispec.OrderResponse, code int) {
	if len(files.paths) > 0 {
		if given := api.given(); given["stack"] || given["http-addr"] {
			return order, a.fail(exitFlags, errors.New("task files and an instance are both named: use one of them"))
		}
		files.tokenLater = true
		cfg, code := files.load(a)
		if code >= 0 {
			return order, code
		}
		order.Tasks, order.Matches = overview.Order(cfg)
		return order, -1
	}
	client, code := a.apiClient(api)
	if code >= 0 {
		return order, code
	}
	order, err := client.Order(a.ctx)
	if err != nil {
		return order, a.fail(exitError, fmt.Errorf("read the order of the tasks: %w", err))
	}
	return order, -1
}
