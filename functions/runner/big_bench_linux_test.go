package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// bigSize is the size of the unpacked provider: that of AWS has 700 MB, those of F5 and PAN-OS less.
const bigSize = 500 << 20

// needsBig is a module that needs it.
const needsBig = `terraform {
  required_providers {
    big = { source = "hashicorp/big" }
  }
}
resource "big_thing0" "x" {
  name = join(",", [for s in var.services : s.name])
}
`

// If the test binary is called terraform, it runs Terraform, and notes how much that reads.
func init() {
	if filepath.Base(os.Args[0]) == "terraform" {
		os.Exit(noteReads())
	}
}

func noteReads() int {
	cmd := exec.Command(os.Getenv("BIG_TERRAFORM"), os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Until it is waited for, the kernel still has its numbers.
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	numbers, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", cmd.Process.Pid))
	read, _, _ := strings.Cut(strings.TrimPrefix(string(numbers), "rchar: "), "\n")
	if f, err := os.OpenFile(os.Getenv("BIG_READS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, read, os.Args[1])
		_ = f.Close()
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// big is what the parts of the benchmark share.
type big struct {
	b        *testing.B
	registry *registrytest.Registry
	env      []string
	calls    string // files
	reads    string
}

// counts are what Terraform did meanwhile.
type counts struct {
	took, cpu                           time.Duration
	downloads, commands, starts, schema int
	read                                int64
}

func (c counts) String() string {
	return fmt.Sprintf("%s, %s of the processor, %d downloads, %d commands of Terraform, which read the size of the provider %.1f times, %d starts of the provider, %d schemas",
		c.took.Round(10*time.Millisecond), c.cpu.Round(10*time.Millisecond), c.downloads, c.commands, float64(c.read)/bigSize, c.starts, c.schema)
}

// measure runs commands one after the other.
func (g *big) measure(commands ...*exec.Cmd) (c counts) {
	g.b.Helper()
	_, _ = os.Remove(g.calls), os.Remove(g.reads)
	c.downloads = -g.registry.Requests(".zip")
	for _, cmd := range commands {
		cmd.Env = append(cmd.Env, g.env...)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			g.b.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		c.took, c.cpu = c.took+time.Since(began), c.cpu+processorTime(cmd)
	}
	c.downloads += g.registry.Requests(".zip")
	calls, _ := os.ReadFile(g.calls)
	c.starts, c.schema = strings.Count(string(calls), "start\n"), strings.Count(string(calls), "schema\n")
	reads, _ := os.ReadFile(g.reads)
	for line := range strings.Lines(string(reads)) {
		n, _ := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
		c.read, c.commands = c.read+n, c.commands+1
	}
	return c
}

func (g *big) compare(what string, ours, bare counts) {
	fmt.Printf("large provider, %s: %.2f of bare, of the processor's time %.2f\n  ours: %s\n  bare: %s\n", what, ours.took.Seconds()/bare.took.Seconds(), ours.cpu.Seconds()/bare.cpu.Seconds(), ours, bare)
}

// BenchmarkBigProvider measures tasks with a provider of 500 MB and 1,000 types of resources: on one
// machine, in a container, and with HCP Terraform. It needs 6 GB of disk.
func BenchmarkBigProvider(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	dir := b.TempDir()
	registry := registrytest.Start(b)
	program := testtools.BigProvider(b)
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	registry.AddProgram("big", "1.0.0", "6.0", program, bigSize-int(info.Size()))
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "terraform")); err != nil {
		b.Fatal(err)
	}
	g := &big{b: b, registry: registry, calls: filepath.Join(dir, "calls"), reads: filepath.Join(dir, "reads")}
	g.env = append(throughRegistry(b, registry), "PATH="+dir+":"+os.Getenv("PATH"), "BIG_TERRAFORM="+testtools.Terraform(b), "BIG_CALLS="+g.calls, "BIG_READS="+g.reads,
		"CHECKPOINT_DISABLE=1")
	b.Run("one machine", g.machine)
	b.Run("container", g.container)
	b.Run("HCP Terraform", g.cloud)
}

const bigTasks = 3

// bare returns commands of Terraform in copies of the root modules.
func (g *big) bare(from, to string, args ...string) (all []*exec.Cmd) {
	for i := range bigTasks {
		dir := filepath.Join(to, fmt.Sprintf("t%d", i))
		if from != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				g.b.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(from, fmt.Sprintf("t%d", i), "*.tf*"))
			if err != nil || len(files) == 0 {
				g.b.Fatalf("no root module: %v", err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					continue // a folder of states
				}
				text = []byte(strings.ReplaceAll(string(text), `"state"`, fmt.Sprintf(`"bare/%d"`, i)))
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o600); err != nil {
					g.b.Fatal(err)
				}
			}
		}
		for _, command := range [][]string{{"init", "-input=false"}, append([]string{"apply", "-auto-approve", "-input=false"}, args...)} {
			cmd := exec.Command(filepath.Join(filepath.Dir(g.calls), "terraform"), command...)
			cmd.Dir, cmd.Env = dir, []string{"HOME=" + g.b.TempDir()}
			all = append(all, cmd)
		}
	}
	return all
}

// site writes task files for one machine.
func (g *big) site(s *stack, driver, ofTask string) (dir string, once func() *exec.Cmd) {
	dir = g.b.TempDir()
	program := filepath.Join(g.b.TempDir(), "terrapulse")
	if err := testtools.Build(program, "cmd/terrapulse"); err != nil {
		g.b.Fatal(err)
	}
	text := fmt.Sprintf("consul {\n  address = %q\n}\n%s\n", s.consul.Addr(), driver)
	for i := range bigTasks {
		text += fmt.Sprintf("task {\n  name = \"t%d\"\n  module = \"./m\"\n  condition \"services\" {\n    names = [\"web\"]\n  }\n%s\n}\n", i, ofTask)
	}
	for name, text := range map[string]string{"tasks.hcl": text, "m/main.tf": "variable \"services\" {}\n" + needsBig} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			g.b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			g.b.Fatal(err)
		}
	}
	home := g.b.TempDir()
	return dir, func() *exec.Cmd {
		cmd := exec.Command(program, "-once", "-config-file", "tasks.hcl")
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + home}
		return cmd
	}
}

func (g *big) machine(b *testing.B) {
	for _, how := range []struct{ name, keys string }{{"unguarded", ""}, {"guarded", "  guard {\n    max_destroy = 1\n  }"}} {
		b.Run(how.name, func(b *testing.B) {
			g.b = b
			dir, once := g.site(newStack(b, ""), "driver \"terraform\" {\n  backend \"local\" {}\n}", how.keys)
			first, next := g.measure(once()), g.measure(once())
			to := b.TempDir()
			bareFirst := g.measure(g.bare(filepath.Join(dir, "sync-tasks"), to)...)
			bareNext := g.measure(g.bare("", to)...)
			g.compare(how.name+" on one machine, first runs", first, bareFirst)
			g.compare(how.name+" on one machine, next runs", next, bareNext)
			if first.downloads != 1 || next.downloads != 0 {
				b.Errorf("%s: %d and %d downloads", how.name, first.downloads, next.downloads)
			}
			if most := bigTasks + 0.2; how.keys == "" && float64(next.read)/bigSize > most {
				b.Errorf("the next runs read the size of the provider %.1f times: more than Terraform's own checks", float64(next.read)/bigSize)
			}
		})
	}
}

func (g *big) container(b *testing.B) {
	g.b = b
	s := newStack(b, s3Backend("S3"), slices.Repeat([]string{needsBig}, bigTasks)...)
	program := filepath.Join(b.TempDir(), "runner")
	if err := testtools.Build(program, "functions/runner"); err != nil {
		b.Fatal(err)
	}
	var bare counts
	for i, name := range []string{"the bucket is empty", "from the bucket"} {
		launch := fmt.Sprintf("l%d", i)
		s.launch(launch)
		work := filepath.Join(b.TempDir(), "work")
		cmd := exec.Command(program)
		cmd.Env = s.environ(launch, "TERRAPULSE_WORK="+work)
		ours := g.measure(cmd)
		for t := range bigTasks {
			if run := s.run(launch, fmt.Sprintf("t%d", t)); run.State != state.RunSucceeded {
				b.Fatalf("%+v", run)
			}
		}
		if i == 0 {
			bare = g.measure(g.bare(filepath.Join(work, "sync-tasks"), b.TempDir())...)
		}
		g.compare("in a container, "+name, ours, bare)
		if ours.downloads != 1-i {
			b.Errorf("%s: %d downloads", name, ours.downloads)
		}
		if err := os.RemoveAll(work); err != nil {
			b.Fatal(err)
		}
	}
}

func (g *big) cloud(b *testing.B) {
	g.b = b
	s, hcp := newStack(b, ""), hcptest.New(b, hcptest.WithoutTerraform())
	_, once := g.site(s, fmt.Sprintf("driver \"terraform-cloud\" {\n  hostname = %q\n  organization = %q\n  token = %q\n}", hcp.URL, hcp.Organization, hcp.Token), "")
	ours := g.measure(once())
	fmt.Printf("large provider, with HCP Terraform: %s\n", ours)
	if ours.downloads+ours.commands+ours.starts > 0 {
		b.Errorf("the provider is used here: %s", ours)
	}
}
