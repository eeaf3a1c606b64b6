package terraform

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Error is a Terraform command that failed.
type Error struct {
	Task    string
	Program string // "tofu"; "" is "terraform"
	Command string // such as "init" or "apply"
	Message string // Terraform's errors, without decoration and secrets
	Hint    string // what it means and what to do, where that is known; may be empty

	stderr string // as Terraform printed it, with secrets: only to be matched
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s of task %s: ", cmp.Or(e.Program, config.EngineTerraform), e.Command, e.Task)
	if e.Hint != "" {
		s += e.Hint + "\n"
	}
	return s + e.Message
}

// wantsInit is what Terraform says, by its summaries, when it is to be
// initialised first. The advice below them depends on its surroundings.
var wantsInit = regexp.MustCompile(`Required plugins are not installed|Inconsistent dependency lock file|` +
	`Module (?:not installed|manifest out of date|source has changed|version requirements have changed)|` +
	`Backend initialization required|(?i:terraform init)`)

// needsInit reports whether Terraform asks for an init.
func (e *Error) needsInit() bool { return e.Command != "init" && wantsInit.MatchString(e.stderr) }

var noWorkspace = regexp.MustCompile(`(?i)workspace "?[^"\n]*"? (?:(?:does not|doesn't) exist|not found)|no existing workspaces|failed to select (?:a )?workspace`)

func (e *Error) needsWorkspace() bool { return noWorkspace.MatchString(e.stderr) }

// LockError is a state that somebody else has locked.
type LockError struct {
	Task      string
	Program   string // "tofu"; "" is "terraform"
	Command   string
	Workspace string
	// Lock as Terraform tells it; empty where it does not.
	ID, Path, Operation, Who, Created string
}

// CreatedAt is when the lock was taken, by the clock of its holder; zero if
// that is not known.
func (e *LockError) CreatedAt() time.Time {
	at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", e.Created)
	if err != nil {
		return time.Time{}
	}
	return at
}

func (e *LockError) Error() string {
	program := cmp.Or(e.Program, config.EngineTerraform)
	s := fmt.Sprintf("%s %s of task %s: the state is locked", program, e.Command, e.Task)
	if e.Who != "" {
		s += " by " + e.Who
	}
	if e.Operation != "" {
		s += " (" + e.Operation + ")"
	}
	if e.Created != "" {
		s += " since " + e.Created
	}
	s += ": it is tried again with the next run"
	if e.ID != "" {
		s += fmt.Sprintf("; if you are sure that its holder is dead, run `%s force-unlock %s` in the task's directory, "+
			"or in any with the same backend and the workspace %s", program, e.ID, e.Workspace)
	}
	return s
}

// InterruptedError is a Terraform command that was interrupted and has ended.
type InterruptedError struct {
	Task    string
	Program string // "tofu"; "" is "terraform"
	Command string
	Cause   error  // why
	Hint    string // what happened to a state that was not saved; may be empty
	// Succeeded is set if the command had started and ended with exit code 0 all
	// the same.
	Succeeded bool
}

func (e *InterruptedError) Error() string {
	s := fmt.Sprintf("%s %s of task %s was interrupted: %v", cmp.Or(e.Program, config.EngineTerraform), e.Command, e.Task, e.Cause)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

var (
	lockInfo  = regexp.MustCompile(`(?s)Lock Info:\n(.*)`)
	notLocked = regexp.MustCompile(`(?i)error acquiring the state lock|failed to lock state`)
)

// explain makes an error of what Terraform printed, which holds secrets.
func (d *Dir) explain(command, stderr string, err error) error {
	plain := undecorated(stderr)
	if m := lockInfo.FindStringSubmatch(plain); m != nil {
		return d.parseLock(command, m[1])
	}
	if notLocked.MatchString(plain) {
		return &LockError{Task: d.opts.Task, Program: d.bin.Program(), Command: command, Workspace: d.opts.Workspace}
	}
	e := &Error{Task: d.opts.Task, Program: d.bin.Program(), Command: command, Message: messages(d.scrub.clean(plain)), Hint: hint(d.opts.Task, plain), stderr: plain}
	if e.Message == "" {
		// Nothing on standard error: killed, or it could not be started.
		first, _, _ := strings.Cut(err.Error(), "\n")
		e.Message = d.scrub.clean(first)
	}
	return e
}

func (d *Dir) parseLock(command, info string) *LockError {
	e := &LockError{Task: d.opts.Task, Program: d.bin.Program(), Command: command, Workspace: d.opts.Workspace}
	fields := map[string]*string{"ID": &e.ID, "Path": &e.Path, "Operation": &e.Operation, "Who": &e.Who, "Created": &e.Created}
	for _, line := range strings.Split(info, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if field := fields[name]; ok && field != nil && *field == "" {
			*field = strings.TrimSpace(value)
		}
	}
	return e
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// undecorated removes the frame that Terraform draws around a diagnostic, and
// the colours of commands that cannot be told to have none.
func undecorated(text string) string {
	lines := strings.Split(colour.ReplaceAllString(text, ""), "\n")
	for i, line := range lines {
		line = strings.TrimPrefix(strings.TrimPrefix(line, "│"), " ")
		if line == "╷" || line == "╵" {
			line = ""
		}
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.Join(lines, "\n")
}

// messageLimit bounds the message of an Error, in bytes.
const messageLimit = 4 << 10

// messages returns the error blocks of what Terraform printed, without
// warnings and empty lines. Blocks that say the same are given once.
func messages(plain string) string {
	var blocks []string
	open := false
	for _, line := range strings.Split(plain, "\n") {
		switch {
		case strings.HasPrefix(line, "Error: "):
			blocks, open = append(blocks, strings.TrimPrefix(line, "Error: ")), true
		case strings.HasPrefix(line, "Warning: "):
			open = false
		case open && line != "":
			blocks[len(blocks)-1] += "\n" + line
		}
	}
	if len(blocks) == 0 {
		blocks = []string{strings.TrimSpace(plain)}
	}
	var text string
	given := map[string]bool{}
	for i, b := range blocks {
		if given[b] {
			continue
		}
		given[b] = true
		if len(text)+len(b) > messageLimit {
			if i == 0 {
				text = strings.ToValidUTF8(b[:messageLimit], "") + " …"
			}
			return text + "\n(and more errors, see Terraform's output)"
		}
		text += "\n" + b
	}
	return strings.TrimSpace(text)
}

var (
	unexpected = regexp.MustCompile(`in module "([^"]+)":(?s:.*?)An argument named "([^"]+)" is not expected here`)
	required   = regexp.MustCompile(`in module "([^"]+)":(?s:.*?)The argument "([^"]+)" is required`)
)

// hint says what Terraform's errors mean for somebody who writes task files.
func hint(task, plain string) string {
	if m := unexpected.FindStringSubmatch(plain); m != nil {
		return missingVariable(m[1], "of task "+m[1], m[2])
	}
	if m := required.FindStringSubmatch(plain); m != nil {
		return fmt.Sprintf("the module needs a value for its variable %q: set it in variables or variable_files of task %s", m[2], task)
	}
	for _, known := range []struct{ text, hint string }{
		{"Failed to download module", "the module cannot be fetched: check the module and version of the task, and the network"},
		{"Unreadable module directory", "the module cannot be read: check the module of the task"},
		{"Failed to query available provider packages", "a provider cannot be fetched: check the name and version of the providers, and the network or mirror"},
		{"Failed to install provider", "a provider cannot be fetched: check the name and version of the providers, and the network or mirror"},
		{"Unsupported backend type", "this version has no such backend: name another as backend in the driver \"terraform\" block, or install a version that has it"},
		{"Unsupported OpenTofu Core version", "the module asks for another OpenTofu than this: install that one, or use Terraform"},
		{"Unsupported Terraform Core version", "the module asks for another Terraform than this: set version in the driver \"terraform\" block, or remove it to get the latest"},
	} {
		if strings.Contains(plain, known.text) {
			return known.hint
		}
	}
	return ""
}

// missingVariable says what to do about a module that does not declare a
// variable which it is given.
func missingVariable(task, module, name string) string {
	s := fmt.Sprintf("the module %s has no variable %q: declare it", module, name)
	switch name {
	case "services":
		return s + " (every module gets the services)"
	case "catalog_services":
		return s + ", or set use_as_module_input = false in the condition of task " + task
	case "consul_kv":
		return s + ", or set use_as_module_input = false in the condition of task " + task + ", or remove its module_input, whichever it comes from"
	default:
		return s + ", or remove it from variables and variable_files of task " + task
	}
}
