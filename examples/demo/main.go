// Command demo demonstrates Terrapulse with a real Consul and a real Terraform: it
// runs the tasks of examples/quickstart, changes the catalog three times and shows
// the results, and has the guard hold a fourth change. Then it runs examples/canary. With -keep it leaves
// everything but that running and prints commands to try.
//
// Usage, from the top of the checkout: make demo, or make demo KEEP=1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/term"
)

func main() {
	keep := flag.Bool("keep", false, "leave Consul and Terrapulse running, and tell what to try")
	flag.Parse()
	// A terminal sends SIGHUP when it is closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	top, err := os.Getwd()
	if err == nil {
		d := &demo{
			top:        top,
			terrapulse: filepath.Join(top, "bin", "terrapulse"+exe()),
			keep:       *keep,
			browse:     browse,
			out:        os.Stdout,
			colored:    term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		}
		err = d.run(ctx)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Println("\nStopped. Nothing is left running.")
		if !*keep { // with -keep, an interrupt is the normal end
			os.Exit(130)
		}
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// stepTimeout limits the time until a change is applied, which usually takes a second.
const stepTimeout = 20 * time.Second

// demo is one demonstration.
type demo struct {
	top        string // the checkout
	terrapulse string // the program
	keep       bool
	browse     func(address string) (ok bool) // opens the pages
	out        io.Writer
	colored    bool

	dir    string // everything that is written
	files  []string
	shown  map[string]string // content of the files as last shown
	consul *consul
	daemon *process
	pages  string   // address of the pages of terrapulse
	env    []string // of terrapulse
}

func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	for _, program := range []string{d.tool("consul"), d.tool("terraform"), d.terrapulse} {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s is missing: run `make demo` at the top of the checkout", program)
		}
	}
	if d.dir, err = os.MkdirTemp("", "terrapulse-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	d.files = []string{
		filepath.Join(d.dir, "load-balancer", "haproxy.cfg"),
		filepath.Join(d.dir, "maintenance", "maintenance.html"),
	}
	d.shown = map[string]string{}

	d.heading("Starting Consul")
	if d.consul, err = startConsul(ctx, d.tool("consul"), d.dir); err != nil {
		return err
	}
	defer d.consul.stop()
	d.say("It listens on %s. Two instances of the service web register: web-1 and web-2.", d.consul.addr)
	for _, id := range []string{"web-1", "web-2"} {
		if err := d.register(ctx, id, 8080); err != nil {
			return err
		}
	}

	d.heading("Starting Terrapulse with examples/quickstart/tasks.yaml")
	start := time.Now()
	if err := d.startDaemon(); err != nil {
		return err
	}
	defer d.daemon.stop()
	for _, file := range d.files {
		if err := d.awaitChange(ctx, file); err != nil {
			return err
		}
	}
	d.say("Terraform has run for both tasks after %s. The files that they write:", seconds(time.Since(start)))
	for _, file := range d.files {
		d.show(file)
	}
	d.say("What follows can be watched in a browser, too: %s", d.pages)
	if d.keep && d.browse(d.pages) {
		d.say("It is opened in yours.")
	}

	// Each step is a change in Consul and the file that it must change.
	for i, step := range []struct {
		title, file string
		act         func() error
	}{
		{"A new instance: web-3 registers in Consul", d.files[0], func() error {
			return d.register(ctx, "web-3", 8080)
		}},
		{"A failing check: web-2 no longer answers", d.files[0], func() error {
			return d.consul.client.Agent().UpdateTTLOpts(checkID("web-2"), "connection refused", api.HealthCritical, (&api.QueryOptions{}).WithContext(ctx))
		}},
		{"A key is edited: web/maintenance says that work is under way", d.files[1], func() error {
			_, err := d.consul.client.KV().Put(
				&api.KVPair{Key: "web/maintenance", Value: []byte("We are back at noon")}, (&api.WriteOptions{}).WithContext(ctx))
			return err
		}},
	} {
		d.heading(fmt.Sprintf("%d. %s", i+1, step.title))
		start := time.Now()
		if err := step.act(); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
		if err := d.awaitChange(ctx, step.file); err != nil {
			return err
		}
		d.say("Applied %s after the change:", seconds(time.Since(start)))
		d.show(step.file)
	}

	if err := d.holdAndApprove(ctx); err != nil {
		return err
	}
	if err := d.canary(ctx); err != nil {
		return err
	}
	if !d.keep {
		d.heading(fmt.Sprintf("That was Terrapulse, in %s", seconds(time.Since(began))))
		d.say("make demo KEEP=1 leaves it running, to try changes of your own.")
		return nil
	}
	d.heading("All of it goes on running until you press Ctrl-C")
	d.suggest()
	return d.follow(ctx)
}

func (d *demo) tool(name string) string {
	return filepath.Join(d.top, ".tools", "bin", name+exe())
}

// register registers a healthy instance of web.
func (d *demo) register(ctx context.Context, id string, port int) error {
	err := d.consul.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
		Name: "web", ID: id, Address: "10.0.0." + id[len(id)-1:], Port: port,
		Check: &api.AgentServiceCheck{CheckID: checkID(id), TTL: "24h", Status: api.HealthPassing},
	}, (api.ServiceRegisterOpts{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("register %s in Consul: %w", id, err)
	}
	return nil
}

func checkID(service string) string { return service + "-answers" }

// holdAndApprove shows a change that the guard holds until it is approved.
func (d *demo) holdAndApprove(ctx context.Context) error {
	d.heading("4. Every instance vanishes from Consul: the guard holds the change")
	for _, id := range []string{"web-1", "web-2", "web-3"} {
		if err := d.consul.client.Agent().ServiceDeregisterOpts(id, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
			return fmt.Errorf("deregister %s in Consul: %w", id, err)
		}
	}
	var plan []byte
	err := d.daemon.await(ctx, stepTimeout, func() (err error) {
		plan, err = d.command(ctx, "plan", "show", "load-balancer")
		return err
	})
	if err != nil {
		return err
	}
	d.say("Nothing was applied. `terrapulse plan show load-balancer` says why:")
	why, _, _ := strings.Cut(string(plan), "\n\n") // the plan itself follows
	fmt.Fprintf(d.out, "\n%s\n", indented(why))
	out, err := d.command(ctx, "approve", "-comment=the shop is closed", "load-balancer")
	if err != nil {
		return err
	}
	d.say("It was a mistake? Then the hold ends by itself when the instances are back. It was not: `terrapulse approve load-balancer`.")
	fmt.Fprintf(d.out, "\n%s\n", indented(string(out)))
	if err := d.awaitChange(ctx, d.files[0]); err != nil {
		return err
	}
	d.show(d.files[0])
	return nil
}

// command runs a command of terrapulse about the started instance, and returns what it
// prints.
func (d *demo) command(ctx context.Context, args ...string) ([]byte, error) {
	last := len(args) - 1
	args = append(slices.Clone(args[:last]), "-config-file", "tasks.yaml", "-config-file", d.settings(), args[last])
	cmd := exec.CommandContext(ctx, d.terrapulse, args...)
	cmd.Dir, cmd.Env = d.quickstart(), d.env
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("terrapulse %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return out, err
}

// startDaemon starts terrapulse as a user would, except for its folders, a shorter buffer
// period and a stricter guard.
func (d *demo) startDaemon() error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	port := ports[0]
	d.pages = fmt.Sprintf("http://localhost:%d/ui/", port)
	content := fmt.Sprintf("working_dir: %q\nport: %d\nbuffer_period: {min: 100ms, max: 1s}\nguard: {on_empty: hold}\n", filepath.ToSlash(d.dir), port)
	if err := os.WriteFile(d.settings(), []byte(content), 0o600); err != nil {
		return err
	}
	d.env = append(os.Environ(),
		"CONSUL_HTTP_ADDR="+d.consul.addr,
		"TF_CLI_CONFIG_FILE="+filepath.Join(d.top, ".tools", "terraform.rc"),
		"PATH="+filepath.Join(d.top, ".tools", "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	d.daemon, err = startProcess(filepath.Join(d.dir, "terrapulse.log"), d.quickstart(), d.env,
		d.terrapulse, "start", "-config-file", "tasks.yaml", "-config-file", d.settings())
	return err
}

func (d *demo) quickstart() string { return filepath.Join(d.top, "examples", "quickstart") }

// settings returns the path of the file with the settings that differ from the quickstart.
func (d *demo) settings() string { return filepath.Join(d.dir, "demo.yaml") }

// awaitChange waits until the file differs from the shown one.
func (d *demo) awaitChange(ctx context.Context, file string) error {
	return d.daemon.await(ctx, stepTimeout, func() error {
		if !d.changed(file) {
			return fmt.Errorf("%s is not written", filepath.Base(file))
		}
		return nil
	})
}

func (d *demo) changed(file string) bool {
	content, err := os.ReadFile(file)
	// Terraform's provider creates the file before it fills it.
	return err == nil && len(content) > 0 && string(content) != d.shown[file]
}

// follow shows every further change until the context ends.
func (d *demo) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.daemon.ended:
			return d.daemon.failure("it ended by itself")
		case <-time.After(100 * time.Millisecond):
		}
		for _, file := range d.files {
			if d.changed(file) {
				d.say("%s:", time.Now().Format(time.TimeOnly))
				d.show(file)
			}
		}
	}
}

// exe returns the extension of programs on this system.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
