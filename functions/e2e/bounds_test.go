//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// BenchmarkBounds measures what the project promises about a deployment in
// AWS, and prints it beside the promise.
func BenchmarkBounds(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	m := &bounds{}
	b.Run("idle", m.idle)
	b.Run("cold", m.cold)
	b.Run("one of many", m.oneOfMany)
	b.Run("a thousand runs", m.thousandRuns)
	b.Run("pages", m.pages)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d cores, %s\n\nWHAT\tMEASURED\tBOUND\t\n", runtime.NumCPU(), runtime.Version())
	for _, r := range m.rows {
		fmt.Fprintln(w, strings.Join(r[:], "\t"))
	}
	w.Flush()
}

type bounds struct{ rows [][4]string }

// row adds a row, and fails the benchmark if the bound is not met.
func (m *bounds) row(b *testing.B, what, measured, bound string, ok bool) {
	b.Helper()
	verdict := "met"
	if !ok {
		verdict = "NOT MET"
		b.Errorf("%s: %s, bound %s", what, measured, bound)
	}
	m.rows = append(m.rows, [4]string{what, measured, bound, verdict})
}

// idle is a tick that finds nothing to do, in a process that is warm.
func (m *bounds) idle(b *testing.B) {
	c := deploy(b, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb", "dns")
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") != "" && c.out("dns") != "" && c.tick().Idle })
	c.untilIdle()
	c.dynamo.reset()
	c.proxy.Reset()
	c.s3.reset()
	const n = 20
	var took []time.Duration
	for range n {
		began := time.Now()
		if !c.tick().Idle {
			b.Fatal("not idle")
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	gets, others := c.dynamo.passed()["GetItem"], len(c.dynamo.passed())-1
	m.row(b, "idle tick: DynamoDB reads, others, Consul reads, S3", fmt.Sprintf("%g, %d, %g, %d", float64(gets)/n, others, float64(c.proxy.Total())/n, len(c.s3.passed())),
		"1, 0, 2, 0", gets == n && others == 0 && c.proxy.Total() <= 2*n && len(c.s3.passed()) == 0)
	median, bare := took[n/2], c.roundTrips(n)
	ratio := median.Seconds() / bare.Seconds()
	m.row(b, "idle tick, warm, with the emulator's own time, against its reads by bare clients",
		fmt.Sprintf("%.1f (%s / %s)", ratio, median.Round(100*time.Microsecond), bare.Round(100*time.Microsecond)), "4", ratio <= 4)
	size := c.resident()
	m.row(b, "memory of the function's process", fmt.Sprintf("%d MB", size>>20), "40 MB", size <= 40<<20)
}

// pages is what a request for news of a page takes of a function that is warm: the least of ten.
func (m *bounds) pages(b *testing.B) {
	c := deploy(b, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "task-0", "task-1", "task-2", "task-3", "task-4")
	c.ecs.HoldStarts()
	c.mustPush()
	c.tickUntil("idle", func() bool { c.applyAll(); return c.tick().Idle })
	measure := func(tasks string, documented time.Duration) {
		tag, _ := c.overview("", http.StatusOK)
		least := time.Hour
		for range 10 {
			_, took := c.overview(tag, http.StatusNotModified)
			least = min(least, took.function)
		}
		m.row(b, "a request for news, with "+tasks+" tasks", least.Round(time.Millisecond).String(), (2 * documented).String(), least <= 2*documented)
	}
	measure("5", pageTime)
	c.manyTasks(1000, "task-0", func(*state.Task) {})
	measure("1,000", largePageTime)
}

// cold is what the function adds to a cold start.
func (m *bounds) cold(b *testing.B) {
	c := deploy(b, options{})
	program := c.program()
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	m.row(b, "size of the function's program", fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), "40 MB", info.Size() <= 40e6)
	var took []time.Duration
	for range 9 {
		took = append(took, c.lambda.firstRequest(b, c.reconcile))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	m.row(b, "start of the process to its first request", median.Round(time.Millisecond).String(), "100ms", median <= 100*time.Millisecond)
}

// oneOfMany is a tick that finds one service of 10,000 changed: the median of five.
func (m *bounds) oneOfMany(b *testing.B) {
	c := deploy(b, options{})
	const services = 10_000
	names := make([]string, services)
	for i := range names {
		names[i] = fmt.Sprintf("svc-%05d", i)
	}
	c.registerMany(names)
	c.module("")
	c.tasks(consulBackend, "all")
	c.file("tasks.hcl", strings.Replace(c.read("tasks.hcl"), `names = ["web"]`, `regexp = "^svc-"`, 1))
	c.ecs.HoldStarts()
	c.mustPush()
	c.applyAll()
	var took, bare []time.Duration
	for round := range 5 {
		c.tickUntil("idle", func() bool { c.applyAll(); return c.tick().Idle })
		c.registerMany([]string{"svc-00000 " + strings.Repeat("x", round+1)})
		began := time.Now()
		answer := c.tick()
		took = append(took, time.Since(began))
		if len(answer.Launches) != 1 {
			b.Fatalf("%+v", answer)
		}
		bare = append(bare, consultest.ReadServices(b, c.proxy.Addr(), names))
	}
	slices.Sort(took)
	slices.Sort(bare)
	size := c.resident()
	ratio := took[2].Seconds() / bare[2].Seconds()
	m.row(b, "tick with 1 changed service among 10,000, against bare reads of them",
		fmt.Sprintf("%.2f (%s / %s)", ratio, took[2].Round(10*time.Millisecond), bare[2].Round(10*time.Millisecond)), "1.5", ratio <= 1.5)
	m.row(b, "tick with 1 changed service among 10,000: memory", fmt.Sprintf("%d MB", size>>20), "128 MB", size <= 128<<20)
}

// thousandRuns is a tick that launches 1,000 runs.
func (m *bounds) thousandRuns(b *testing.B) {
	c := deploy(b, options{})
	c.register("web-1", 8080)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("task-%04d", i)
	}
	c.module("")
	c.tasks(consulBackend, names...)
	c.ecs.HoldStarts()
	if out, err := c.bundlePush(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	began := time.Now()
	answer := c.tick()
	took := time.Since(began)
	m.row(b, fmt.Sprintf("cold tick that launches %d runs in %d launches", len(answer.Runs), len(answer.Launches)), took.Round(10*time.Millisecond).String(), "10s",
		took <= 10*time.Second && len(answer.Runs) == 1000)
}

// roundTrips is the median time that bare clients need for what an idle tick
// reads: one item of the table and two gates of Consul, one after the other.
func (c *cloud) roundTrips(n int) time.Duration {
	c.t.Helper()
	config := api.DefaultConfig()
	config.Address = c.proxy.Addr()
	consul, err := api.NewClient(config)
	if err != nil {
		c.t.Fatal(err)
	}
	var took []time.Duration
	for range n {
		began := time.Now()
		if _, err := c.store.Get(c.t.Context(), state.ReconcileKey); err != nil {
			c.t.Fatal(err)
		}
		if _, _, err := consul.Catalog().Nodes(&api.QueryOptions{Filter: `Node == ""`}); err != nil {
			c.t.Fatal(err)
		}
		if _, _, err := consul.Health().State("critical", &api.QueryOptions{Filter: `Node == ""`}); err != nil {
			c.t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[n/2]
}

// program is the path of the program of the function that reconciles.
func (c *cloud) program() string {
	return rehearsed.artifacts.Program("ReconcileFunction", rehearsal.Here(), "reconcile")
}

// resident is the largest resident set of the processes of the function that
// reconciles, in bytes.
func (c *cloud) resident() int64 {
	c.t.Helper()
	out, err := exec.Command("pgrep", "-f", c.program()+"$").Output()
	if err != nil {
		c.t.Fatalf("find the process: %v", err)
	}
	var largest int64
	for _, pid := range strings.Fields(string(out)) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			continue
		}
		var hwm int64
		own := false
		for line := range strings.Lines(string(status)) {
			if name, ok := strings.CutPrefix(line, "Name:"); ok {
				own = strings.TrimSpace(name) == filepath.Base(c.program())
			}
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kb, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
				hwm = kb << 10
			}
		}
		if own {
			largest = max(largest, hwm)
		}
	}
	return largest
}

// read returns a file of the configuration.
func (c *cloud) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "files", name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// registerMany registers an instance of each service in the catalog. After a
// blank, a name may say what is different about it.
func (c *cloud) registerMany(names []string) {
	c.t.Helper()
	catalog := c.consul.Client().Catalog()
	errs := make(chan error, len(names))
	slots := make(chan struct{}, 16)
	for _, name := range names {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			name, change, _ := strings.Cut(name, " ")
			_, err := catalog.Register(&api.CatalogRegistration{Node: "many", Address: "10.0.0.1",
				Service: &api.AgentService{ID: name, Service: name, Port: 80 + len(change)}}, nil)
			errs <- err
		}()
	}
	for range names {
		if err := <-errs; err != nil {
			c.t.Fatal(err)
		}
	}
}
