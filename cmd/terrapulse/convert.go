package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/terrapulse/terrapulse/internal/config"
)

// convertCommand writes task files as YAML.
type convertCommand struct{ *app }

func (c *convertCommand) Synopsis() string {
	return "Convert task files from HCL or JSON to one YAML file"
}

func (c *convertCommand) Help() string {
	return `Usage: terrapulse convert [-o=FILE] FILE...

  Writes the YAML for task files in HCL or JSON, such as those of
  Consul-Terraform-Sync: one file that means the same as all of them together,
  in the order of the arguments. No default is added, nothing is taken from the
  environment, and values that are looked up stay as they are. Deprecated keys
  become those that replace them. Comments above a key or block, and beside a
  key, are kept; those that stand alone are lost.

  Paths in the file are relative to the directory that Terrapulse is started in,
  as before, wherever the file lies.
`
}

func (c *convertCommand) about() about {
	f, _, _ := c.flags()
	return about{flags: f, examples: []string{"-o=tasks.yaml cts.hcl"},
		codes: codesOfFiles, args: files}
}

func (c *convertCommand) flags() (f *flag.FlagSet, out *string, asJSON *bool) {
	f = newFlags("convert")
	out = f.String("o", "", "The `FILE` to write, which must not be there yet. Default: print it.")
	return f, out, jsonFlag(f)
}

// converted is what convert -json prints.
type converted struct {
	File     string   `json:"file,omitempty"`    // that was written
	Content  string   `json:"content,omitempty"` // without a file
	Warnings []string `json:"warnings"`
}

func (c *convertCommand) Run(args []string) int {
	f, out, asJSON := c.flags()
	if code := c.parse(f, args); code >= 0 {
		return code
	}
	if f.NArg() == 0 {
		return c.fail(exitMissing, errors.New("name the files to convert, as in: terrapulse convert [-o=FILE] tasks.hcl"))
	}
	if *out != "" {
		if ext := strings.ToLower(filepath.Ext(*out)); ext != ".yaml" && ext != ".yml" {
			return c.fail(exitFlags, fmt.Errorf("-o %s: the name of a file of YAML ends in .yaml or .yml, or it would not be read", *out))
		}
	}
	var opts config.Options
	for _, name := range f.Args() {
		opts.Paths = append(opts.Paths, config.Path{Name: name})
	}
	file, notes, err := config.Convert(opts)
	var all config.Errors
	if errors.As(err, &all) {
		for _, d := range all {
			fmt.Fprintf(c.stderr, "Error: %s\n", d)
		}
		return exitConfig
	}
	if err != nil {
		return c.fail(exitError, err)
	}
	result := converted{File: *out, Warnings: []string{}}
	for _, n := range notes {
		result.Warnings = append(result.Warnings, n.String())
		if !*asJSON {
			fmt.Fprintf(c.stderr, "Warning: %s\n", n)
		}
	}
	if *out == "" {
		if *asJSON {
			result.Content = string(file)
			return c.printJSON(result)
		}
		if _, err := c.stdout.Write(file); err != nil {
			return c.fail(exitError, err)
		}
		return exitOK
	}
	if err := writeNew(*out, file); err != nil {
		return c.fail(exitError, err)
	}
	if *asJSON {
		return c.printJSON(result)
	}
	fmt.Fprintf(c.stdout, "Wrote %s. Check it with: terrapulse validate -config-file=%s\n", *out, *out)
	return exitOK
}

// writeNew writes a file that must not be there yet, readable for its owner
// alone: it may hold tokens.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: give -o another name, or remove it", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
