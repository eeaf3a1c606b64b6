package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// How the bench of a cluster works.
const (
	clusterTasks    = 24
	clusterParallel = 4
	deviceAnswers   = 15 // seconds: a task mostly waits for its device
	clusterBound    = 2.7
)

// BenchmarkCluster compares how many runs three instances end in a time with one instance. Its tasks
// wait for a device: what a run needs of the processors is that of the machine, not of an instance.
func BenchmarkCluster(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	program := filepath.Join(b.TempDir(), "terrapulse")
	if err := testtools.Build(program, "cmd/terrapulse"); err != nil {
		b.Fatal(err)
	}
	one, three := clusterTakes(b, program, 1), clusterTakes(b, program, 3)
	ratio := one.Seconds() / three.Seconds()
	fmt.Printf("%d runs that wait %d s: one instance %s, three %s, %.2f times the runs (bound %.1f)\n", clusterTasks, deviceAnswers,
		one.Round(100*time.Millisecond), three.Round(100*time.Millisecond), ratio, clusterBound)
	b.ReportMetric(ratio, "x")
	if ratio < clusterBound {
		b.Errorf("three instances do %.2f times the runs of one, less than %.1f", ratio, clusterBound)
	}
}

// clusterTakes is how long so many instances need to run all tasks.
func clusterTakes(b *testing.B, program string, instances int) time.Duration {
	e := newEnsemble(b, 15*time.Second, consultest.Start(b))
	e.parallel, e.program = clusterParallel, program
	e.write("device/main.tf", fmt.Sprintf(`
variable "services" {}
resource "terraform_data" "device" {
  triggers_replace = join(" ", sort([for s in var.services : "${s.name}:${s.port}"]))
  provisioner "local-exec" {
    command = "if [ -n '${self.triggers_replace}' ]; then sleep %d; fi; echo '${self.triggers_replace}' >> %s/$(basename $PWD)"
  }
}
`, deviceAnswers, e.path("done")))
	if err := os.MkdirAll(e.path("done"), 0o700); err != nil {
		b.Fatal(err)
	}
	var tasks strings.Builder
	for i := range clusterTasks {
		fmt.Fprintf(&tasks, "task {\n name = \"t%d\"\n module = %q\n %s\n}\n", i, e.path("device"), onWeb)
	}
	applied := func(text string) bool {
		for i := range clusterTasks {
			if !strings.HasSuffix(e.read(fmt.Sprintf("done/t%d", i)), text+"\n") {
				return false
			}
		}
		return true
	}
	var members []*member
	for n := range instances {
		members = append(members, e.instance(n+1, tasks.String()))
		if n == 0 {
			eventually(b, "the first instance leads", members[0].leads)
		}
	}
	eventually(b, "all instances are there, and all tasks were applied once", func() bool { return members[0].sees(instances, "cts-01") && applied("") })
	e.publish(e.servers[0], "web-1", 8080)
	began := time.Now()
	eventually(b, "all tasks are applied", func() bool { return applied("web:8080") })
	took := time.Since(began)
	for _, m := range members {
		m.stop()
	}
	return took
}
