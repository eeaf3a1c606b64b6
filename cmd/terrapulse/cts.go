package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/hashicorp/go-hclog"

	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
			_, err = rootmodule.Module{Config: cfg, Task: task, Blocks: snap.Blocks, Types: module.VariableTypes(task, task.WorkingDir)}.Write(task.WorkingDir)
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
	attrs []slog.Attr
	group string // before the keys of further attributes
}

func newCTSHandler(w io.Writer, level slog.Level) slog.Handler {
	return &ctsHandler{level: level, log: hclog.New(&hclog.LoggerOptions{
		Name: "ctrl", Output: w, Level: hclog.Trace, TimeFormat: "2006-01-02T15:04:05.000Z0700",
	})}
}

func (h *ctsHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *ctsHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = flat(attrs, h.group, a)
		return true
	})
	message, known := ctsMessages[r.Message]
	known = known && !slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "kind" }) // only an apply completes a task
	if !known {
		message = r.Message
	}
	var args []any
	for _, a := range attrs {
		key, value := a.Key, a.Value.Any()
		if key == "task" {
			key = ctsTask
		}
		if known && key != ctsTask {
			continue
		}
		if err, ok := value.(error); ok {
			value = err.Error()
		}
		args = append(args, key, value)
	}
	// The levels of slog are 4 apart, with TRACE at -8; those of hclog follow each other.
	h.log.Log(min(max(hclog.Info+hclog.Level(r.Level>>2), hclog.Trace), hclog.Error), message, args...)
	return nil
}

// flat appends an attribute, or those of a group with the group's name before their
// keys.
func flat(attrs []slog.Attr, group string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, a := range v.Group() {
			attrs = flat(attrs, group, a)
		}
		return attrs
	}
	return append(attrs, slog.Attr{Key: group + a.Key, Value: v})
}

func (h *ctsHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = flat(slices.Clip(h.attrs), h.group, slog.Attr{Value: slog.GroupValue(attrs...)})
	return &next
}

func (h *ctsHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}
