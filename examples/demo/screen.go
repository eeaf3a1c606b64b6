package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

func (d *demo) heading(text string) { fmt.Fprintf(d.out, "\n%s\n", d.color(bold, text)) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, "  "+format+"\n", args...) }

func (d *demo) color(code, text string) string {
	if !d.colored {
		return text
	}
	return code + text + reset
}

// show prints a file and marks the lines that have changed since it was last shown.
func (d *demo) show(file string) {
	content, err := os.ReadFile(file)
	if err != nil {
		d.say("%s: %v", file, err)
		return
	}
	old, known := d.shown[file]
	d.shown[file] = string(content)

	fmt.Fprintf(d.out, "\n    %s\n", filepath.Base(file))
	for _, l := range diff(lines(old), lines(string(content))) {
		mark, text := l[:1], l[1:]
		switch {
		case !known || mark == kept:
			fmt.Fprintf(d.out, "    | %s\n", text)
		case mark == added:
			fmt.Fprintln(d.out, d.color(green, "  + | "+text))
		default:
			fmt.Fprintln(d.out, d.color(red, "  - | "+text))
		}
	}
	fmt.Fprintln(d.out)
}

// suggest prints commands to try.
func (d *demo) suggest() {
	here := func(path string) string {
		if rel, err := filepath.Rel(d.top, path); err == nil && !strings.HasPrefix(rel, "..") {
			return filepath.ToSlash(rel)
		}
		return path
	}
	fmt.Fprintf(d.out, `  The pages:      %[6]s
  Consul's pages: http://%[1]s/ui
  The files:      %[2]s
  Terrapulse log: %[3]s

  Try, in another terminal in this folder (what changes is shown here):

    export CONSUL_HTTP_ADDR=%[1]s PATH="$PWD/.tools/bin:$PATH"
    consul services register -name web -id web-4 -address 10.0.0.4 -port 8080
    consul services deregister -id web-4
    consul kv put web/maintenance "Closed for lunch"
    curl -X PUT -d "All is well again" http://%[1]s/v1/kv/web/maintenance
    consul kv put web/balance leastconn   # used from the next change of web on
    %[4]s status -config-file %[5]s
    %[4]s approve -config-file %[5]s load-balancer   # if web has no instance any more; or on its page

`, d.consul.addr, strings.Join(d.files, "\n                  "), d.daemon.log, here(d.terrapulse), here(d.settings()), d.pages)
}

// indented returns the lines of a text, indented.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
