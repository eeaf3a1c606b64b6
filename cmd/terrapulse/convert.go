package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/posener/complete"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// converted is what convert -json prints.
type converted struct {
	File     string   `json:"file,omitempty"`    // that was written
	Content  string   `json:"content,omitempty"` // without a file
	Warnings []string `json:"warnings"`
}

// convertCommand writes task files as YAML.
func (a *app) convertCommand() command {
	var out string
	f := a.flagSet("convert")
	f.StringVar(&out, "o", "", "The `FILE` to write, which must not be there yet. Default: print it.")
	return command{flags: f, synopsis: "Convert task files from HCL or JSON to one YAML file",
		examples: []string{"-o=tasks.yaml cts.hcl"}, codes: codesOfFiles, args: complete.PredictFiles("*"),
		help: `Usage: terrapulse convert [-o=FILE] FILE...

  Writes the YAML for task files in HCL or JSON, such as those of
  Consul-Terraform-Sync: one file that means the same as all of them together,
  in the order of the arguments. No default is added, nothing is taken from the
  environment, and values that are looked up stay as they are. Deprecated keys
  become those that replace them. Comments above a key or block, and beside a
  key, are kept; those that stand alone are lost.

  Paths in the file are relative to the directory that Terrapulse is started in,
  as before, wherever the file lies.
`,
		run: func(arguments []string) int {
			if len(arguments) == 0 {
				return a.fail(exitMissing, errors.New("name the files to convert, as in: terrapulse convert [-o=FILE] tasks.hcl"))
			}
			if out != "" {
				if ext := strings.ToLower(filepath.Ext(out)); ext != ".yaml" && ext != ".yml" {
					return a.fail(exitFlags, fmt.Errorf("-o %s: the name of a file of YAML ends in .yaml or .yml, or it would not be read", out))
				}
			}
			var opts config.Options
			for _, name := range arguments {
				opts.Paths = append(opts.Paths, config.Path{Name: name})
			}
			file, notes, err := config.Convert(opts)
			if errors.As(err, new(config.Errors)) {
				return a.invalid(err)
			}
			if err != nil {
				return a.fail(exitError, err)
			}
			result := converted{File: out, Warnings: []string{}}
			for _, n := range notes {
				result.Warnings = append(result.Warnings, n.String())
				if !a.json {
					fmt.Fprintf(a.stderr, "Warning: %s\n", n)
				}
			}
			switch {
			case out != "":
				err = writeNew(out, file)
			case a.json:
				result.Content = string(file)
			default:
				_, err = a.stdout.Write(file)
			}
			switch {
			case err != nil:
				return a.fail(exitError, err)
			case a.json:
				return a.printJSON(result)
			case out != "":
				fmt.Fprintf(a.stdout, "Wrote %s. Check it with: terrapulse validate -config-file=%s\n", out, out)
			}
			return exitOK
		},
	}
}

// writeNew writes a file that must not be there yet, readable for its owner
// alone: it may hold tokens.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: give -o another name, or remove it", name)
	}
	if err != nil {
		return fileOf("-o", err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
