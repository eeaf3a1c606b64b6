package main

import (
	"bytes"
	"flag"
	"io"
	"regexp"
	"slices"
	"strings"
)

// placeFlags say where a command acts, and how it gets there. A token is not printed.
var placeFlags = []string{"stack", "http-addr", "port", "store", "config-file", "config-dir", "token-file", "ca-cert", "ca-path", "client-cert", "client-key", "ssl-verify"}

// filesOfStore name the store of a command that can also send requests elsewhere.
var filesOfStore = []string{"store", "config-file", "config-dir"}

// notePlace has the place flags of a command line kept as they are parsed.
func (a *app) notePlace(f *flag.FlagSet) {
	for _, name := range placeFlags {
		if one := f.Lookup(name); one != nil {
			one.Value = placeValue{one.Value, name, a}
		}
	}
}

// givenFlag is a flag of the command line.
type givenFlag struct{ name, value string }

// placeValue is the value of a place flag.
type placeValue struct {
	flag.Value
	name string
	app  *app
}

// Set implements flag.Value.
func (v placeValue) Set(value string) error {
	v.app.given = append(v.app.given, givenFlag{v.name, value})
	return v.Value.Set(value)
}

// IsBoolFlag says that -ssl-verify needs no value.
func (v placeValue) IsBoolFlag() bool {
	b, ok := v.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// here adds to the commands between backquotes in a text the flags of this command line that they need to act at
// the same place.
func (a *app) here(text []byte) []byte {
	if len(a.given) == 0 || a.json {
		return text
	}
	return printedCommand.ReplaceAllFunc(text, func(found []byte) []byte {
		at := printedCommand.FindSubmatchIndex(found)
		name, end := string(found[at[2]:at[3]]), at[3]
		if at[4] >= 0 {
			if group := name + " " + string(found[at[4]:at[5]]); a.flagsOf[group] != nil {
				name, end = group, at[5]
			}
		}
		known := a.flagsOf[name]
		if known == nil || bytes.HasSuffix(found, []byte("-help`")) {
			return found
		}
		made := slices.Clone(found[:end])
		elsewhere := known.Lookup("store") != nil && slices.ContainsFunc(a.given, func(g givenFlag) bool { return g.name == "stack" || g.name == "http-addr" })
		for _, g := range a.given {
			if elsewhere && slices.Contains(filesOfStore, g.name) {
				continue
			}
			if known.Lookup(g.name) != nil && !bytes.Contains(found, []byte(" -"+g.name)) {
				made = append(made, " -"+g.name+"="+shellWord(g.value)...)
			}
		}
		return append(made, found[end:]...)
	})
}

// printedCommand is a command in a text. The second word may be a part of its name.
var printedCommand = regexp.MustCompile("`terrapulse\\s+([a-z-]+)(?:\\s+([a-z-]+))?[^`]*`")

// shellWord writes a value as a shell reads it.
func shellWord(value string) string {
	if plainWord.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// placed writes what people read. The commands in it act where this one does.
type placed struct {
	io.Writer
	app *app
}

// Write implements io.Writer.
func (p placed) Write(text []byte) (int, error) {
	if _, err := p.Writer.Write(p.app.here(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Unwrap returns what it writes to.
func (p placed) Unwrap() io.Writer { return p.Writer }

// plainly returns what writes a text as it is, as logs are written.
func plainly(w io.Writer) io.Writer {
	if p, ok := w.(placed); ok {
		return p.Writer
	}
	return w
}
