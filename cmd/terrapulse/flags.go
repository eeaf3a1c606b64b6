package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// newFlags returns a flag set that reports errors itself and exits nothing.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// flagSet returns the flags of a command that can print JSON.
func (a *app) flagSet(name string) *flag.FlagSet {
	f := newFlags(name)
	f.BoolVar(&a.json, "json", false, "Print JSON, for scripts.")
	return f
}

// configFlags are where the configuration comes from, in order.
type configFlags struct {
	paths []config.Path
	// tokenLater is set by commands that do not call the driver.
	tokenLater bool
}

func (c *configFlags) register(f *flag.FlagSet) {
	f.Func("config-file", "A `path` of a task file: YAML, HCL or JSON by its ending. Repeatable.", func(s string) error {
		c.paths = append(c.paths, config.Path{Name: s})
		return nil
	})
	f.Func("config-dir", "A `path` of a folder to load task files from, in the order of their names. Repeatable.", func(s string) error {
		c.paths = append(c.paths, config.Path{Name: s, Dir: true})
		return nil
	})
}

// load reads the configuration, or prints all that is wrong with it.
func (c *configFlags) load(a *app) (*config.Config, int) {
	if code := c.required(a); code >= 0 {
		return nil, code
	}
	cfg, err := c.read()
	return cfg, a.invalid(err)
}

// required fails unless files are named.
func (c *configFlags) required(a *app) int {
	if len(c.paths) == 0 {
		return a.fail(exitMissing, errors.New("no configuration: name task files with -config-file or -config-dir; `terrapulse init` writes a first one"))
	}
	return -1
}

// invalid prints everything that is wrong with the configuration, a line each,
// and returns the exit code: -1 if nothing is wrong.
func (a *app) invalid(errs ...error) int {
	code := -1
	for _, err := range errs {
		if err == nil {
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			code = a.fail(exitConfig, errors.New(line))
		}
	}
	return code
}

// read reads the configuration.
func (c *configFlags) read() (*config.Config, error) {
	return config.Load(c.options())
}

func (c *configFlags) options() config.Options {
	return config.Options{Paths: c.paths, Getenv: os.Getenv, Hostname: hostname(), TokenLater: c.tokenLater}
}

// fileOf adds to the error of a file that does not exist in which folder it was looked for, and which
// flag is wrong.
func fileOf(flag string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; %s: correct %s", err, config.NotThere(path.Path), flag)
	}
	return err
}

// hostname is the name of this machine.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// parallelFlag is how many tasks are worked on at a time.
func parallelFlag(f *flag.FlagSet, n *int, what string) {
	f.Func("parallel", "The `number` of tasks that "+what+" at a time. Default: twice the number of cores, at least 4.", func(s string) error {
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 {
			return errors.New("give a number from 1 on")
		}
		*n = v
		return nil
	})
}

// logFlags are how much is logged, and how.
type logFlags struct{ level, format string }

func (l *logFlags) register(f *flag.FlagSet) {
	f.StringVar(&l.level, "log-level", "", "Minimum log `level`: TRACE, DEBUG, INFO, WARN or ERR. Default: log_level of the configuration.")
	f.StringVar(&l.format, "log-format", "text", "The `format` of log lines: text or json.")
}

// logger returns the log of the program. What libraries print through package
// log, as net/http does, goes there too.
func (l *logFlags) logger(a *app, configured string) (*slog.Logger, error) {
	name := cmp.Or(l.level, configured)
	level, ok := logging.Named(name)
	if !ok {
		return nil, fmt.Errorf("-log-level %s: use TRACE, DEBUG, INFO, WARN or ERR", name)
	}
	out := plainly(a.stderr)
	var handler slog.Handler = slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})
	switch {
	case l.format == "json":
		handler = logging.JSON(out, level).Handler()
	case l.format != "text":
		return nil, fmt.Errorf("-log-format %s: use text or json", l.format)
	case a.isCTS():
		handler = newCTSHandler(out, level)
	case colored(out):
		handler = tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: time.TimeOnly + "Z07:00"})
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	return log, nil
}

// colored reports whether w is a terminal whose user has not asked for plain text.
func colored(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// isTerminal reports whether a person reads w, and not a script.
func isTerminal(w io.Writer) bool {
	if inner, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = inner.Unwrap()
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
