package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shellSetup is what has a shell complete the program's commands: lines of a file.
type shellSetup struct {
	file  string
	lines []string
	whole bool // the file has nothing else
}

// setupsIn are those for the shells that are set up in a home folder.
func setupsIn(home, program, binary string) (all []shellSetup) {
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	binary = shellWord(binary)
	for _, name := range []string{".bashrc", ".bash_profile", ".bash_login", ".profile"} {
		if file := filepath.Join(home, name); exists(file) {
			all = append(all, shellSetup{file: file, lines: []string{"complete -C " + binary + " " + program}})
			break
		}
	}
	if file := filepath.Join(home, ".zshrc"); exists(file) {
		all = append(all, shellSetup{file: file, lines: []string{"autoload -U +X bashcompinit && bashcompinit", "complete -o nospace -C " + binary + " " + program}})
	}
	if fish := filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "fish"); exists(fish) {
		all = append(all, shellSetup{file: filepath.Join(fish, "completions", program+".fish"), whole: true, lines: []string{
			"function __complete_" + strings.ReplaceAll(program, "-", "_"),
			"    set -lx COMP_LINE (commandline -cp)",
			"    test -z (commandline -ct)",
			`    and set COMP_LINE "$COMP_LINE "`,
			"    " + binary,
			"end",
			"complete -f -c " + program + ` -a "(__complete_` + strings.ReplaceAll(program, "-", "_") + `)"`,
		}})
	}
	return all
}

// set adds the completion to its file, or takes it out, and says what it did.
func (c shellSetup) set(install bool) (string, error) {
	raw, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", c.file, err)
	}
	lines := strings.SplitAfter(string(raw), "\n")
	last := c.lines[len(c.lines)-1]
	is := func(line string) bool { return strings.TrimRight(line, "\n") == last }
	switch there := slices.ContainsFunc(lines, is); {
	case install && there:
		return "Commands are completed by " + c.file + " already.", nil
	case !install && !there:
		return "Nothing of completion is in " + c.file + ".", nil
	case install:
		err = c.add(raw)
	case c.whole:
		err = os.Remove(c.file)
	default: // zsh's other line may be for other programs
		err = os.WriteFile(c.file, []byte(strings.Join(slices.DeleteFunc(lines, is), "")), 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("change the completion in %s: %w", c.file, err)
	}
	if !install {
		return "Took the completion of commands out of " + c.file + ".", nil
	}
	return "Commands are completed by " + c.file + ": open a new shell.", nil
}

// add adds the lines to the file, which has this text.
func (c shellSetup) add(raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(c.file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(c.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	text := ""
	if len(raw) > 0 && !bytes.HasSuffix(raw, []byte("\n")) {
		text = "\n"
	}
	for _, line := range c.lines {
		if c.whole || !bytes.Contains(raw, []byte(line+"\n")) {
			text += line + "\n"
		}
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// autocomplete has the shells of this person complete commands, or not any more.
func (a *app) autocomplete(install bool) int {
	home, err := os.UserHomeDir()
	if err != nil {
		return a.fail(exitError, fmt.Errorf("find the home folder: %w", err))
	}
	binary, err := os.Executable()
	if err != nil {
		return a.fail(exitError, fmt.Errorf("find this program: %w", err))
	}
	all := setupsIn(home, a.program, binary)
	if len(all) == 0 {
		return a.fail(exitError, fmt.Errorf("no shell is set up in %s: there is no .bashrc, .zshrc or folder of fish; create the one of your shell", home))
	}
	for _, c := range all {
		said, err := c.set(install)
		if err != nil {
			return a.fail(exitError, err)
		}
		fmt.Fprintln(a.stdout, said)
	}
	return exitOK
}
