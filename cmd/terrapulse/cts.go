package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/hashicorp/go-hclog"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/rootmodule"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// The names of the program. Called by the second one, it answers as
// Consul-Terraform-Sync does.
const (
	ownName = "terrapulse"
	ctsName = "consul-terraform-sync"
)

// ctsVersion is the version of Consul-Terraform-Sync whose files, commands and API
// Terrapulse has. Scripts that request the version get it.
const ctsVersion = "0.9.0"

// programName is the name by which the program was called.
func programName(arg0 string) string {
	if strings.TrimSuffix(filepath.Base(arg0), ".exe") == ctsName {
		return ctsName
	}
	return ownName
}

// isCTS reports whether the program was called as Consul-Terraform-Sync.
func (a *app) isCTS() bool { return a.program == ctsName }

// product returns the name of the program for sentences.
func (a *app) product() string {
	if a.isCTS() {
		return "Consul-Terraform-Sync"
	}
	return "Terrapulse"
}

// ctsUsage is the end of the first line of a command's help, which scripts read.
var ctsUsage = map[string]string{
	"task create":  "[-help] [options] -task-file=<task config>",
	"task enable":  "[-help] [options] <task name>",
	"task disable": "[-help] [options] <task name>",
	"task delete":  "[-help] [options] <task name>",
}

// ctsHelp rewords the help of a command as in Consul-Terraform-Sync.
func ctsHelp(command, help string) string {
	if usage, ok := ctsUsage[command]; ok {
		_, rest, _ := strings.Cut(help, "\n")
		help = fmt.Sprintf("Usage: %s %s %s\n%s", ctsName, command, usage, rest)
	}
	help = strings.NewReplacer("\n  "+ownName+" ", "\n  "+ctsName+" ", "`"+ownName+" ", "`"+ctsName+" ").Replace(help)
	return strings.Replace(help, "\n  -auto-approve\n", "\n  -auto-approve [Default: false]\n", 1)
}

// helpFunc is the help of the program without a command.
func (a *app) helpFunc() cli.HelpFunc {
	basic := cli.BasicHelpFunc(a.program)
	if !a.isCTS() {
		return basic
	}
	return func(commands map[string]cli.CommandFactory) string {
		_, list, _ := strings.Cut(basic(commands), "commands are:\n")
		return fmt.Sprintf("Usage CLI: %s <command> [-help] [options]\n\nCommands:\n%s", ctsName, list)
	}
}

// ctsFlags are hidden flags of start, as in Consul-Terraform-Sync.
type ctsFlags struct {
	clientType string
	implied    bool // the command line has no command
}

// development is the client type that runs no Terraform.
const development = "development"

func (o *ctsFlags) check(a *app) error {
	if o.implied && a.isCTS() {
		fmt.Fprintf(a.stderr, "%sWarning: to start without a command is deprecated and may go away:\n%suse '%s start' with the same flags\n\n", heading, margin, a.program)
	}
	if o.clientType != "" && o.clientType != development {
		return fmt.Errorf("-client-type %s: the only one is %s", o.clientType, development)
	}
	return nil
}

// develop writes the root module of every task, and does not run Terraform.
func (a *app) develop(cfg *config.Config) int {
	client, code := a.connect(cfg)
	if code >= 0 {
		return code
	}
	for i := range cfg.Tasks {
		task := &cfg.Tasks[i]
		snap, err := client.Preview(a.ctx, task)
		if err == nil {
			_, err = rootmodule.Module{Config: cfg, Task: task, Blocks: snap.Blocks, Types: terraform.VariableTypes(task)}.Write(task.WorkingDir)
		}
		if err != nil {
			return a.fail(exitError, fmt.Errorf("generate the files of task %s: %w", task.Name, err))
		}
		fmt.Fprintf(a.stdout, "Task %s: its files are in %s, Terraform was not run\n", task.Name, task.WorkingDir)
	}
	return exitOK
}

// ctsOnce logs the end of once-mode in words that scripts look for.
func (a *app) ctsOnce(code int) {
	if a.isCTS() && code == exitOK {
		slog.Info("all tasks completed once")
		a.ctsEnded()
	}
}

// ctsEnded logs the end of the program in words that scripts look for.
func (a *app) ctsEnded() {
	if a.isCTS() {
		slog.Info("graceful shutdown")
	}
}

// ctsInspected logs a plan as Consul-Terraform-Sync does, and returns true, if the
// program was called so.
func (a *app) ctsInspected(task *config.Task, plan string) bool {
	if !a.isCTS() {
		return false
	}
	if !task.Enabled {
		plan = "Task is disabled, inspection was skipped."
	}
	slog.Info("inspection results", ctsTask, task.Name, "plan", plan)
	return true
}

// ctsTask is the key of a task's name in log lines.
const ctsTask = "task_name"

// ctsMessages are log messages for which Consul-Terraform-Sync has other words,
// which scripts look for.
var ctsMessages = map[string]string{
	"run succeeded": "task completed",
	"stopped":       "graceful shutdown",
}

// ctsHandler logs in the format of Consul-Terraform-Sync.
type ctsHandler struct {
	log   hclog.Logger
	level slog.Level
	attrs []any // keys and values, in turn
	group string
}

func newCTSHandler(w io.Writer, level slog.Level) slog.Handler {
	return &ctsHandler{level: level, log: hclog.New(&hclog.LoggerOptions{
		Name: "ctrl", Output: w, Level: hclog.Trace, TimeFormat: "2006-01-02T15:04:05.000Z0700",
	})}
}

func (h *ctsHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *ctsHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		attrs = h.with(attrs, a)
		return true
	})
	level := ctsLevel(r.Level)
	message, known := ctsMessages[r.Message]
	var task []any
	for i := 0; i < len(attrs); i += 2 {
		switch attrs[i] {
		case ctsTask:
			task = attrs[i : i+2]
		case "kind": // only an apply completes a task
			known = false
		}
	}
	if !known {
		message, task = r.Message, attrs
	}
	h.log.Log(level, message, task...)
	return nil
}

// with adds an attribute to keys and values.
func (h *ctsHandler) with(attrs []any, a slog.Attr) []any {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		sub := *h
		if a.Key != "" {
			sub.group += a.Key + "."
		}
		for _, a := range v.Group() {
			attrs = sub.with(attrs, a)
		}
		return attrs
	}
	key := h.group + a.Key
	switch {
	case key == "task":
		key = ctsTask
	case key == "":
		return attrs
	}
	value := v.Any()
	if err, ok := value.(error); ok && err != nil {
		value = err.Error()
	}
	return append(attrs, key, value)
}

func (h *ctsHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = h.attrs[:len(h.attrs):len(h.attrs)]
	for _, a := range attrs {
		next.attrs = h.with(next.attrs, a)
	}
	return &next
}

func (h *ctsHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.group += name + "."
	}
	return &next
}

func ctsLevel(l slog.Level) hclog.Level {
	switch {
	case l < slog.LevelDebug:
		return hclog.Trace
	case l < slog.LevelInfo:
		return hclog.Debug
	case l < slog.LevelWarn:
		return hclog.Info
	case l < slog.LevelError:
		return hclog.Warn
	}
	return hclog.Error
}
