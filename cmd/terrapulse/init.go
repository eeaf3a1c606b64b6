package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"
	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/firsttask"
)

// shownServices is how many services of Consul init lists.
const shownServices = 30

// initOptions are the flags of init.
type initOptions struct {
	firsttask.Task
	dir string
}

// firstTask is what init prints with -json.
type firstTask struct {
	Task     string   `json:"task"`
	Services []string `json:"services"`
	Files    []string `json:"files"`
	Warnings []string `json:"warnings"`
	Next     []string `json:"next"`
}

// initCommand writes a first task.
func (a *app) initCommand() command {
	var o initOptions
	f := a.flagSet("init")
	o.register(f)
	return command{flags: f, synopsis: "Write a first task, and say how to run it",
		examples: []string{"", "-consul-addr=consul.example.com:8500 -service=web", "-service=web -service=api -task=load-balancer -dir=network"},
		codes:    codesOfStore, values: map[string]complete.Predictor{"service": a.tasks(f, o.serviceNames)},
		help: `Usage: terrapulse init [flags]

  Writes a task file with comments and a module that Terraform plans at once,
  without a provider that must be downloaded. It reads the services in Consul,
  asks which of them the task watches, checks what it has written, and prints
  the next commands. It never replaces a file.

  It only asks on a terminal. Elsewhere, and with -json, the flags say all.
`,
		run: func([]string) int { return a.writeFirstTask(o) },
	}
}

func (o *initOptions) register(f *flag.FlagSet) {
	f.StringVar(&o.Consul, "consul-addr", "", "The `address` of Consul. Default: CONSUL_HTTP_ADDR, or localhost:8500.")
	f.Func("service", "The `name` of a service that the task watches. Repeatable.", func(name string) error {
		if name == "" {
			return errors.New("give the name of a service")
		}
		o.Services = append(o.Services, name)
		return nil
	})
	f.StringVar(&o.Name, "task", "", "The `name` of the task. Default: that of its first service.")
	f.StringVar(&o.dir, "dir", "", "The `folder` to write into. Default: this one.")
}

// serviceNames are the services in Consul, for completion.
func (o *initOptions) serviceNames(ctx context.Context, _ string) ([]string, error) {
	at, err := config.ConsulOf(os.Getenv)
	if err != nil {
		return nil, err
	}
	at.Address = cmp.Or(o.Consul, at.Address)
	names, _, err := servicesIn(ctx, at)
	return names, err
}

// writeFirstTask asks what the flags do not say, and writes the files.
func (a *app) writeFirstTask(o initOptions) int {
	asks := !a.json && isTerminal(a.stdout) && isReader(a.stdin)
	if err := firsttask.Vacant(o.dir, firsttask.File); err != nil {
		return a.fail(exitError, howToGoOn(err))
	}
	at, err := config.ConsulOf(os.Getenv)
	if err != nil {
		return a.invalid(err)
	}
	if at.Address = cmp.Or(o.Consul, at.Address); o.Consul == "" && asks {
		if at.Address, err = a.ask("Where is Consul?", at.Address); err != nil {
			return a.fail(exitError, err)
		}
	}
	o.Consul = at.Address
	services, hidden, err := servicesIn(a.ctx, at)
	if err != nil {
		return a.unready(exitConfig, fmt.Errorf("%w; nothing was written. Name Consul's address with -consul-addr; a token is read from CONSUL_HTTP_TOKEN", err))
	}
	if len(o.Services) == 0 {
		if o.Services, err = a.chooseServices(asks, o.Consul, services, hidden); err != nil {
			return a.fail(exitMissing, err)
		}
	}
	o.Name = cmp.Or(o.Name, firsttask.NameFor(o.Services[0]))
	files, err := firsttask.Files(o.Task)
	if err == nil {
		err = firsttask.Write(o.dir, files)
	}
	if err != nil {
		return a.fail(exitError, howToGoOn(err))
	}
	result := firstTask{Task: o.Name, Services: o.Services, Warnings: []string{}, Next: nextCommands(o.dir)}
	for _, f := range files {
		result.Files = append(result.Files, filepath.Join(o.dir, filepath.FromSlash(f.Path)))
	}
	return a.reportFirstTask(o, result)
}

// howToGoOn adds to the error of a file that is there already what the person can do.
func howToGoOn(err error) error {
	if errors.As(err, new(*firsttask.ExistsError)) {
		return fmt.Errorf("%w. Name another folder with -dir or another task with -task, or add a task to your file by hand: %s", err, docs.Page("reference/README.md"))
	}
	return err
}

// reportFirstTask checks the written files, and prints what to do with them.
func (a *app) reportFirstTask(o initOptions, result firstTask) int {
	v := &validation{}
	opts := config.Options{Paths: []config.Path{{Name: firsttask.File}}, Getenv: os.Getenv, Hostname: hostname(), Dir: o.dir}
	a.validate(v, opts, true)
	result.Warnings = append(result.Warnings, v.Warnings...)
	code := exitOK
	if len(v.Errors) > 0 {
		code = exitConfig
	}
	for _, e := range v.Errors {
		a.fail(code, errors.New(e))
	}
	if a.json {
		return cmp.Or(code, a.printJSON(result))
	}
	for _, w := range result.Warnings {
		a.paragraph("", "Warning: "+w)
	}
	fmt.Fprintf(a.stdout, "Wrote %s.\n", strings.Join(result.Files, " and "))
	if code != exitOK {
		fmt.Fprintf(a.stdout, "Correct this, then check again:\n\n%s  terrapulse validate -config-file %s -consul\n", enter(o.dir), firsttask.File)
		return code
	}
	fmt.Fprintf(a.stdout, "The task %s watches %s. Next:\n\n  %s\n", o.Name, strings.Join(o.Services, ", "), strings.Join(result.Next, "\n  "))
	return code
}

// nextCommands are what a person runs after init.
func nextCommands(dir string) []string {
	all := []string{
		"terrapulse inspect -config-file " + firsttask.File + "       # what would change? (changes nothing)",
		"terrapulse start -config-file " + firsttask.File + " -once   # apply it once",
		"terrapulse start -config-file " + firsttask.File + "         # apply each change; pages: http://localhost:8558/ui/",
	}
	if in := strings.TrimSpace(enter(dir)); in != "" {
		all = append([]string{in}, all...)
	}
	return all
}

// harmless matches folders that every shell reads as they are.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// enter is the command that enters the folder; nothing for this one.
func enter(dir string) string {
	if dir == "" || filepath.Clean(dir) == "." {
		return ""
	}
	if strings.HasPrefix(dir, "-") { // no flag of cd
		dir = "./" + dir
	}
	if !harmless.MatchString(dir) {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return "  cd " + dir + "\n"
}

// servicesIn returns the names of the services in Consul, and whether access control hides some.
func servicesIn(ctx context.Context, at config.Consul) (names []string, hidden bool, err error) {
	client, err := instance.Connect(ctx, &config.Config{Consul: at}, true)
	if err != nil {
		return nil, false, err
	}
	all, meta, err := client.API().Catalog().Services((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, false, fmt.Errorf("list the services in Consul at %s: %w", at.Address, err)
	}
	for name := range all {
		names = append(names, name)
	}
	// Consul's own service is everywhere, so it is the last one.
	slices.SortFunc(names, func(x, y string) int {
		if x == "consul" || y == "consul" {
			return map[bool]int{true: 1, false: -1}[x == "consul"]
		}
		return cmp.Compare(x, y)
	})
	return names, meta.ResultsFilteredByACLs || client.Access(ctx) != "", nil
}

// chooseServices asks which services the task watches.
func (a *app) chooseServices(asks bool, address string, services []string, hidden bool) ([]string, error) {
	note := ""
	if hidden {
		note = " Consul's access control hides others: a token in CONSUL_HTTP_TOKEN needs service:read and node:read, see " + docs.Page("acl.md") + "."
	}
	if !asks {
		has := "no service"
		if len(services) > 0 {
			has = strings.Join(abridged(services), ", ")
		}
		return nil, fmt.Errorf("name the services that the task watches with -service; Consul at %s has %s.%s", address, has, note)
	}
	if len(services) == 0 {
		a.paragraph("", "Consul shows no service."+note)
		return a.pick(services, "web")
	}
	fmt.Fprintf(a.stdout, "\nServices in Consul:\n")
	for i, name := range abridged(services) {
		fmt.Fprintf(a.stdout, "  %2d  %s\n", i+1, name)
	}
	if note != "" {
		a.paragraph("", strings.TrimSpace(note))
	}
	return a.pick(services, services[0])
}

// pick asks for names or numbers of services until there is one that can be.
func (a *app) pick(services []string, first string) ([]string, error) {
	for {
		answer, err := a.ask("Which should the task watch? Names or numbers", first)
		if err != nil {
			return nil, err
		}
		var chosen []string
		unknown := ""
		for _, word := range strings.FieldsFunc(answer, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
			if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(services) {
				word = services[n-1]
			} else if len(services) > 0 && !slices.Contains(services, word) {
				unknown = word
			}
			if !slices.Contains(chosen, word) {
				chosen = append(chosen, word)
			}
		}
		if unknown == "" && len(chosen) > 0 {
			return chosen, nil
		}
		fmt.Fprintf(a.stdout, "Consul shows no service %s. A name that is not there yet can be given with -service.\n", unknown)
	}
}

// abridged returns the first names, and how many more there are.
func abridged(names []string) []string {
	if len(names) <= shownServices {
		return names
	}
	return append(slices.Clone(names[:shownServices]), fmt.Sprintf("… and %d more", len(names)-shownServices))
}

// ask asks for a line. An empty one is the default.
func (a *app) ask(question, otherwise string) (string, error) {
	fmt.Fprintf(a.stdout, "%s [%s]: ", question, otherwise)
	answer, err := readLine(a.ctx, a.stdin)
	switch {
	case a.ctx.Err() != nil:
		return "", errors.New("interrupted before there was an answer: nothing was written")
	case errors.Is(err, io.EOF):
		return "", errors.New("cannot prompt: standard input is closed; nothing was written. Give -consul-addr and -service")
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return cmp.Or(strings.TrimSpace(answer), otherwise), nil
}

// isReader reports whether a person can answer.
func isReader(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isTerminal(f)
}
