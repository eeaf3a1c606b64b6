package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// manyServices measures one task with 10,000 services.
func (m *bounds) manyServices(how string, condition func(names []string) string) {
	const n = 10_000
	s := newSite(m.b)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("svc-%05d", i)
	}
	registerAll(m.b, s.consul, names)
	proxy := consultest.NewProxy(m.b, s.consul.Addr())
	s.write("wide/main.tf", wideModule)
	file := s.config(fmt.Sprintf(`
task {
  name = "wide"
  module = %q
  condition "services" {
    %s
  }
}
`, s.path("wide"), condition(names)))

	cfg := m.load(file)
	client, err := consul.New(cfg.Consul)
	if err != nil {
		m.b.Fatal(err)
	}
	query, _ := consul.ConditionQuery(&cfg.Tasks[0])
	began := time.Now()
	if answer := client.Observe(context.Background(), []consul.Query{query})[0]; answer.Err != nil || len(answer.Elements) != n {
		m.b.Fatalf("%d elements: %v", len(answer.Elements), answer.Err)
	}
	look := time.Since(began)
	bare := consultest.ReadServices(m.b, s.consul.Addr(), names)

	p := m.start(s, file)
	long(m.b, "the first apply", func() bool { return strings.Contains(p.stderr.String(), "run succeeded") })
	time.Sleep(10 * time.Second) // the tick that follows a run is over, and the rest after it
	began = time.Now()
	change(m.b, s.consul, names[0])
	soon(m.b, "the change is seen", func() bool { return strings.Contains(p.stderr.String(), `reason=condition_changed`) })
	seen := time.Since(began)
	long(m.b, "the second apply", func() bool { return strings.Count(p.stderr.String(), "run succeeded") == 2 })
	peak := residentMB(m.b, p.Process.Pid, "VmHWM")
	p.stop()

	// Once more, through something that counts and so takes its time.
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), s.consul.Addr(), proxy.Addr(), 1))
	p = m.start(s, file)
	change(m.b, s.consul, names[1])
	long(m.b, "a run through the proxy", func() bool { return strings.Contains(p.stderr.String(), "run succeeded") })
	change(m.b, s.consul, names[2])
	long(m.b, "a second one", func() bool { return strings.Count(p.stderr.String(), "run succeeded") == 2 })
	connections := proxy.PeakConnections()
	p.stop()

	what := "10,000 services by " + how + ": "
	against := func(part string, took time.Duration, bound float64) {
		ratio := took.Seconds() / bare.Seconds()
		m.row(what+part+", against bare reads of them", fmt.Sprintf("%.2f (%s / %s)", ratio, took.Round(time.Millisecond), bare.Round(time.Millisecond)),
			fmt.Sprintf("<= %.2g", bound), ratio <= bound)
	}
	against("first read", look, 1.5)
	against("a change to observed", seen, 2)
	m.row(what+"peak memory", fmt.Sprintf("%.1f MB", peak), "<= 80 MB", peak <= 80)
	m.row(what+"connections", strconv.Itoa(connections), "<= 16", connections <= 16)
	m.idleRow(what+"idle tick", m.load(file), proxy, 2)
}

// registerAll registers services, one instance each, on nodes of 100.
func registerAll(t testing.TB, server *consultest.Server, names []string) {
	t.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	client := server.Client()
	for range 8 {
		wg.Go(func() {
			for i := range work {
				_, err := client.Catalog().Register(&api.CatalogRegistration{
					Node: fmt.Sprintf("node-%03d", i/100), Address: "10.1.0.1", SkipNodeUpdate: i%100 != 0,
					Service: &api.AgentService{ID: names[i], Service: names[i], Port: 8000 + i%1000, Tags: []string{"v1"}},
				}, nil)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := 0; i < len(names); i += 100 { // a node before its services
		work <- i
	}
	time.Sleep(100 * time.Millisecond)
	for i := range names {
		if i%100 != 0 {
			work <- i
		}
	}
	close(work)
	wg.Wait()
}

func change(t testing.TB, server *consultest.Server, name string) {
	t.Helper()
	_, err := server.Client().Catalog().Register(&api.CatalogRegistration{
		Node: "node-000", Address: "10.1.0.1", SkipNodeUpdate: true,
		Service: &api.AgentService{ID: name, Service: name, Port: 1, Tags: []string{"v2"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// manyTasks measures loading and deciding about 1,000 tasks.
func (m *bounds) manyTasks() {
	dir := m.b.TempDir()
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "task {\n  name = \"task%d\"\n  module = \"./mod\"\n  condition \"services\" {\n    names = [\"web-%d\"]\n  }\n}\n", i, i)
	}
	file := filepath.Join(dir, "tasks.hcl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		m.b.Fatal(err)
	}
	began := time.Now()
	cfg := m.load(file)
	loading := time.Since(began)
	m.row("1,000 tasks: loading", loading.Round(time.Millisecond).String(), "<= 2 s", loading <= 2*time.Second)

	inputs := make([]decide.Input, len(cfg.Tasks))
	now := time.Now()
	for i := range inputs {
		inputs[i] = decide.Input{Task: &cfg.Tasks[i], Definition: "d", Reading: decide.Reading{Observed: &decide.Observed{Digest: fmt.Sprint(i)}},
			State: state.Task{Applied: state.Applied{Definition: "d", Digest: "x", At: now}, Observed: state.Observed{Digest: "x", At: now}}}
	}
	began = time.Now()
	decide.Decide(inputs, now)
	deciding := time.Since(began)
	m.row("1,000 tasks: one Decide", deciding.Round(10*time.Microsecond).String(), "<= 50 ms", deciding <= 50*time.Millisecond)
}
