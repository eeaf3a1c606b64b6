package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkBounds measures the promised limits of a container's time: ten tasks, from the start of
// its process to its end, relative to plain Terraform commands on the same root modules. The work
// volume is empty in both cases.
func BenchmarkBounds(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	program := filepath.Join(b.TempDir(), "runner")
	if err := testtools.Build(program, "functions/runner"); err != nil {
		b.Fatal(err)
	}
	for _, backend := range []struct{ name, text string }{{"S3", s3Backend("S3")}, {"Consul", ""}} {
		b.Run(backend.name, func(b *testing.B) {
			const bound = 0.75
			const tasks, rounds = 10, 6
			s := newStack(b, backend.text, slices.Repeat([]string{good}, tasks)...)
			var ours, bare, oursCPU, bareCPU []time.Duration
			for round := range rounds {
				launch := fmt.Sprintf("l%d", round)
				s.launch(launch)
				work := filepath.Join(b.TempDir(), "work")
				cmd := exec.Command(program)
				cmd.Env = s.environ(launch, "TERRAPULSE_WORK="+work)
				var out testtools.Output
				cmd.Stdout, cmd.Stderr = &out, &out
				began := time.Now()
				if err := cmd.Run(); err != nil {
					b.Fatalf("%v\n%s", err, &out)
				}
				ours, oursCPU = append(ours, time.Since(began)), append(oursCPU, processorTime(cmd))
				var sum, cpu time.Duration
				for i := range tasks {
					task := fmt.Sprintf("t%d", i)
					if run := s.run(launch, task); run.State != state.RunSucceeded {
						b.Fatalf("the run reads %+v", run)
					}
					dir := s.copyRootModule(filepath.Join(work, "sync-tasks", task), fmt.Sprintf("%d-%d", round, i))
					for _, args := range [][]string{{"init", "-input=false", "-no-color"}, {"apply", "-auto-approve", "-input=false", "-no-color"}} {
						took, busy := s.terraform(dir, args...)
						sum, cpu = sum+took, cpu+busy
					}
				}
				bare, bareCPU = append(bare, sum), append(bareCPU, cpu)
			}
			ratio := ratioOf(ours, bare) // other work of the machine delays both of a round
			o, t := median(ours), median(bare)
			verdict := "met"
			if ratio > bound {
				verdict = "NOT MET"
				b.Errorf("%.2f of bare init + apply, bound %.2f", ratio, bound)
			}
			fmt.Printf("runner: %d tasks, %s backend, against bare init + apply: %.2f (%s / %s), of the processor's time %.2f, bound <= %.2f: %s\n", tasks, backend.name,
				ratio, o.Round(time.Millisecond), t.Round(time.Millisecond), ratioOf(oursCPU, bareCPU), bound, verdict)
		})
	}
}

// ratioOf returns the median of the ratios of rounds.
func ratioOf(ours, bare []time.Duration) float64 {
	all := make([]float64, len(ours))
	for i := range ours {
		all[i] = ours[i].Seconds() / bare[i].Seconds()
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// median returns the median.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// processorTime is what a program that has ended, and those that it has waited for, have used of the
// processor.
func processorTime(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// copyRootModule copies the generated files, and gives them separate states.
func (s *stack) copyRootModule(from, key string) string {
	s.t.Helper()
	files, err := filepath.Glob(from + "/*.tf*")
	if err != nil || len(files) == 0 {
		s.t.Fatalf("no root module in %s: %v", from, err)
	}
	dir := s.t.TempDir()
	for _, f := range files {
		if strings.HasSuffix(f, ".d") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			s.t.Fatal(err)
		}
		text = []byte(strings.NewReplacer(`"state"`, fmt.Sprintf("%q", "bare/"+key), `"consul-terraform-sync/terraform"`, fmt.Sprintf("%q", "bare/"+key)).Replace(string(text)))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}

// terraform runs a plain command, and returns its time and that of the processor.
func (s *stack) terraform(dir string, args ...string) (took, cpu time.Duration) {
	s.t.Helper()
	cmd := exec.Command(testtools.Terraform(s.t), args...)
	cmd.Dir, cmd.Env = dir, s.environ("")
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("terraform %v: %v\n%s", args, err, out)
	}
	return time.Since(began), processorTime(cmd)
}
