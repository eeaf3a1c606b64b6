package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestMain lets tests start the program as a process of its own: with this variable, the test
// binary is the program.
func TestMain(m *testing.M) {
	if os.Getenv("TERRAPULSE_TEST_AS_PROGRAM") != "" {
		main()
		return
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() != "1" { // 1 runs one test after the other
		parallel.Value.Set(strconv.Itoa(atOnce))
	}
	os.Exit(browsertest.Main(m))
}

// atOnce is how many of the tests that are parallel run at a time. They wait for elections, leases,
// polls and Consul more than for a processor, which -parallel counts.
const atOnce = 6

// site is a folder with task files and modules, and the Consul that they use.
type site struct {
	t      testing.TB
	dir    string
	consul *consultest.Server
	env    []string // added to the environment of processes; parallel tests only
}

// newSite starts a Consul and creates a folder with a module that writes its variables to a file.
func newSite(t testing.TB, options ...consultest.Option) *site {
	t.Helper()
	for _, variable := range terraformEnv(t) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	s := &site{t: t, dir: testtools.Folder(t), consul: consultest.Start(t, options...)}
	s.writeModule()
	return s
}

// newParallelSite makes the test parallel to others. Tests that mostly wait use it. The program
// runs only as processes of its own: its environment and its default log belong to a process.
func newParallelSite(t *testing.T, options ...consultest.Option) *site {
	t.Helper()
	t.Parallel()
	s := &site{t: t, dir: testtools.Folder(t), consul: consultest.Start(t, options...), env: terraformEnv(t)}
	s.writeModule()
	return s
}

// terraformEnv returns the environment in which the program finds the tests' Terraform and
// providers.
func terraformEnv(t testing.TB) []string {
	t.Helper()
	return []string{
		"TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(t),
		"PATH=" + filepath.Dir(testtools.Terraform(t)) + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
}

func (s *site) writeModule() {
	s.write("mod/main.tf", `
terraform {
  required_providers {
    local = {
      source = "hashicorp/local"
    }
  }
}
variable "services" {
  type = map(object({ name = string, address = string, port = number, status = string }))
}
variable "file" {
  type = string
}
variable "consul_kv" {
  type    = map(string)
  default = {}
}
variable "config_entries" {
  type    = map(string)
  default = {}
}
variable "resources" {
  type    = map(string)
  default = {}
}
variable "nodes" {
  type    = map(object({ address = string, status = string }))
  default = {}
}
resource "local_file" "out" {
  filename = var.file
  content = join("", concat(
    [for k, s in var.services : "${s.name} ${s.address}:${s.port} ${s.status}\n"],
    [for k, v in var.consul_kv : "${k}=${v}\n"],
    [for k, v in merge(var.config_entries, var.resources) : "${k}=${v}\n"],
    [for k, n in var.nodes : "${k} ${n.address} ${n.status}\n"],
  ))
}
`)
}

// config writes a task file: the shared head, and tasks.
func (s *site) config(tasks string) string {
	s.t.Helper()
	return s.write("tasks.hcl", fmt.Sprintf(`
working_dir = %q
port = 0
consul {
  address = %q
  service_registration {
    enabled = false
  }
}
driver "terraform" {
  backend "local" {}
}
buffer_period {
  enabled = false
}
`, filepath.Join(s.dir, "work"), s.consul.Addr())+tasks)
}

// task is a task that writes its services to <name>.txt.
func (s *site) task(name, body string) string {
	s.write(name+".tfvars", fmt.Sprintf("file = %q\n", s.path(name+".txt")))
	return fmt.Sprintf(`
task {
  name = %q
  module = %q
  variable_files = [%q]
  %s
}
`, name, s.path("mod"), s.path(name+".tfvars"), body)
}

const onWeb = `condition "services" {
    names = ["web"]
  }`

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// write replaces a file as a whole: an instance may read it at any time. A script can be run.
func (s *site) write(name, text string) string {
	s.t.Helper()
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.Remove(s.path(name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read(name string) string {
	data, _ := os.ReadFile(s.path(name))
	return string(data)
}

// register registers an instance of a service with a check of its own.
func (s *site) register(service, id string, port int, status string) {
	s.t.Helper()
	err := s.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: service, ID: id, Port: port, Address: "10.0.0.1",
		Check: &api.AgentServiceCheck{TTL: "1h", Status: status, CheckID: "check-" + id},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// result is what a command that has ended left.
type result struct {
	code           int
	stdout, stderr string
}

// run runs the program until it ends: inside the test, or as a process if the test is parallel.
func (s *site) run(args ...string) result {
	s.t.Helper()
	if s.env != nil {
		p := s.start(args...)
		<-p.ended
		return result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
	}
	return s.runInTest(args...)
}

// runInTest runs the program inside the test. In parallel tests it is for commands that only read the
// store: they do not set the default log.
func (s *site) runInTest(args ...string) result {
	s.t.Helper()
	var stdout, stderr testtools.Output
	code := run(s.t.Context(), s.args(args), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// run runs the program, with nobody to answer it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, program: ownName, stdin: strings.NewReader(""), stdout: stdout, stderr: stderr}
	return a.run(args)
}

// args adds the store of the site to commands that take one.
func (s *site) args(args []string) []string {
	s.t.Helper()
	command := "start"
	rest := args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, rest = args[0], args[1:]
	}
	overAPI := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-http-addr") })
	if overAPI || command == "init" || command == "doctor" || command == "validate" || command == "notify" || command == "inspect" || command == "migrate" || command == "runner" {
		return args
	}
	if command == "plan" {
		return append([]string{"plan", rest[0], "-store", "sqlite:" + s.path("state.db")}, rest[1:]...)
	}
	return append([]string{command, "-store", "sqlite:" + s.path("state.db")}, rest...)
}

// process is the program as a process of its own.
type process struct {
	*exec.Cmd
	t      testing.TB
	stderr *testtools.Output
	stdout *testtools.Output
	ended  chan struct{}
}

// start starts the program as a process of its own, and kills it when the test ends.
func (s *site) start(args ...string) *process {
	s.t.Helper()
	return s.startProgram(os.Args[0], args...)
}

// startProgram starts a binary of the program.
func (s *site) startProgram(path string, args ...string) *process {
	s.t.Helper()
	return s.launch(exec.Command(path, s.args(args)...))
}

// startBare starts the program with the store that its task files configure.
func (s *site) startBare(args ...string) *process {
	s.t.Helper()
	return s.launch(exec.Command(os.Args[0], append([]string{"start"}, args...)...))
}

func (s *site) launch(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{Cmd: cmd, t: s.t, stderr: &testtools.Output{}, stdout: &testtools.Output{}, ended: make(chan struct{})}
	p.Env = append(append(os.Environ(), "TERRAPULSE_TEST_AS_PROGRAM=1"), s.env...)
	p.Stdout, p.Stderr, p.Dir = p.stdout, p.stderr, s.dir
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		p.Process.Kill()
		<-p.ended
		if s.t.Failed() || os.Getenv("SHOW") != "" {
			s.t.Logf("output of %v:\n%s%s", p.Args[1:], p.stdout, p.stderr)
		}
	})
	return p
}

// stop asks the program to end and returns its exit code.
func (p *process) stop() int {
	p.t.Helper()
	p.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatal("the program did not end")
	}
	return p.ProcessState.ExitCode()
}

// eventually waits until what is so, and fails the test if it never is.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func wantCode(t testing.TB, r result, code int) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
}

func wantText(t testing.TB, in string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(in, text) {
			t.Errorf("does not say %q:\n%s", text, in)
		}
	}
}
