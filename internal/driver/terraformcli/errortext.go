package terraformcli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/driver/module"
)

// Terraform's errors have no codes, neither in text nor in JSON: only their words
// distinguish them. Only this file reads these words.

// causes are what Terraform's errors are about, as far as that decides something.
type causes uint

const (
	wantsInit       causes = 1 << iota // terraform init must be run first
	wantsWorkspace                     // the workspace does not exist
	locked                             // another process has locked the state
	backendChanged                     // the state must be moved to another backend
	newerState                         // the backend has a newer state
	unrelatedState                     // the backend has a state of something else
	sameSerialState                    // the backend has another state of as many changes
	notSaved                           // the state after an apply could not be saved
)

var causeTexts = map[causes]*regexp.Regexp{
	// The summaries. The advice below them depends on its surroundings.
	wantsInit: regexp.MustCompile(`Required plugins are not installed|Inconsistent dependency lock file|` +
		`Module (?:not installed|manifest out of date|source has changed|version requirements have changed)|` +
		`Backend initialization required|(?i:terraform init)`),
	wantsWorkspace:  regexp.MustCompile(`(?i)workspace "?[^"\n]*"? (?:(?:does not|doesn't) exist|not found)|no existing workspaces|failed to select (?:a )?workspace`),
	locked:          regexp.MustCompile(`Lock Info:\n|(?i:error acquiring the state lock|failed to lock state)`),
	backendChanged:  regexp.MustCompile(`Backend configuration changed|for state migration|Migrating state from`),
	newerState:      regexp.MustCompile(`over\s+newer\s+state`),
	unrelatedState:  regexp.MustCompile(`over\s+unrelated\s+state`),
	sameSerialState: regexp.MustCompile(`that\s+has\s+the\s+same\s+serial`),
	notSaved:        regexp.MustCompile(`(?m)^Error: Failed to (?:save|persist) state`),
}

// causesOf reads the causes from what Terraform printed.
func causesOf(plain string) causes {
	var all causes
	for c, text := range causeTexts {
		if text.MatchString(plain) {
			all |= c
		}
	}
	return all
}

var outdated = regexp.MustCompile(`locked\s+provider\s+(\S+)\s+\S+\s+does\s+not\s+match\s+configured\s+version\s+constraint`)

// outdatedIn returns the sources of providers that an init has refused because the lock file has another
// version than the one that the configuration asks for now.
func outdatedIn(plain string) (sources []string) {
	for _, found := range outdated.FindAllStringSubmatch(plain, -1) {
		sources = append(sources, found[1])
	}
	return sources
}

// read takes the description of the lock from what Terraform printed.
func (e *LockError) read(plain string) {
	fields := map[string]*string{"ID": &e.ID, "Path": &e.Path, "Operation": &e.Operation, "Who": &e.Who, "Created": &e.Created}
	_, info, _ := strings.Cut(plain, "Lock Info:\n")
	for line := range strings.Lines(info) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if field := fields[name]; ok && field != nil && *field == "" {
			*field = strings.TrimSpace(value)
		}
	}
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// undecorated removes the frame that Terraform draws around a diagnostic, and
// the colours of commands that have no option against them.
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

// wrongSum is a provider whose checksum is not one of those in the lock file.
var wrongSum = regexp.MustCompile(`(?:doesn't|does\s+not)\s+match\s+any\s+of\s+the\s+checksums`)

// hint explains Terraform's errors to the author of task files.
func (d *Dir) hint(plain string) string {
	task := d.opts.Task
	if wrongSum.MatchString(plain) {
		return fmt.Sprintf("a provider is not the one whose checksum is in %s: either it was changed, or the checksum is that of a provider which another program "+
			"was still writing into the same plugin cache. If you trust the provider that is there now, remove this file, and the next run records its checksum", d.lockFile())
	}
	if m := unexpected.FindStringSubmatch(plain); m != nil {
		return module.MissingVariable(m[1], "of task "+m[1], m[2])
	}
	if m := required.FindStringSubmatch(plain); m != nil {
		return fmt.Sprintf("the module needs a value for its variable %q: set it in variables or variable_files of task %s", m[2], task)
	}
	for _, known := range []struct{ text, hint string }{
		{"Failed to download module", "the module cannot be fetched: check the module and version of the task, and the network"},
		{"Unreadable module directory", "the module cannot be read: check the module of the task"},
		{"Failed to query available provider packages", d.unfetched()},
		{"Failed to install provider", d.unfetched()},
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

// unfetched is what to do if an init does not get a provider.
func (d *Dir) unfetched() string {
	env, _ := d.opts.environment() // no error: the command has run with it
	if why := MissingCLIConfig(d.path, func(name string) string { return env[name] }); why != "" {
		return "a provider cannot be fetched, and " + why
	}
	return "a provider cannot be fetched: check the name and version of the providers, and the network or mirror"
}
