package consul

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// serviceReads is how often services were read through the proxy.
func serviceReads(p *consultest.Proxy) (n int) {
	for path, times := range p.Requests() {
		if strings.HasPrefix(path, "/v1/health/service/") {
			n += times
		}
	}
	return n
}

func TestSnapshot_TakesWhatAnObservationHasKept(t *testing.T) {
	s := consultest.Start(t)
	names := make([]string, keptFrom)
	for i := range names {
		names[i] = fmt.Sprintf("web-%03d", i)
		put(t, s, &api.CatalogRegistration{Node: "node", Address: "10.0.0.1", Service: &api.AgentService{Service: names[i], Port: 80}})
	}
	for how, spec := range map[string]condition.Spec{"names": services(names...), "regexp": matching("^web-")} {
		t.Run(how, func(t *testing.T) {
			proxy := consultest.NewProxy(t, s.Addr())
			c := client(t, proxy.Addr())
			c.KeepReadings()
			observe := func() Observation {
				t.Helper()
				proxy.Reset()
				a := c.Observe(t.Context(), []Query{query(t, spec)})[0]
				if a.Err != nil {
					t.Fatal(a.Err)
				}
				return a.Observation
			}
			read := func(want int) *Snapshot {
				t.Helper()
				proxy.Reset()
				got := snapshot(t, c, task(spec))
				if n := serviceReads(proxy); n != want {
					t.Errorf("services were read %d times, want %d", n, want)
				}
				if n := got.Blocks[0].Entries.Len(); n != len(names) {
					t.Errorf("the snapshot has %d services", n)
				}
				return got
			}

			seen := observe()
			if got := read(0); got.Condition.Digest != seen.Digest {
				t.Error("the snapshot shows something else than the observation")
			}
			read(len(names)) // a reading is given once

			seen = observe()
			put(t, s, &api.CatalogRegistration{Node: "node", Address: "10.0.0.1", Service: &api.AgentService{Service: names[7], Port: 8000 + len(how)}})
			if got := read(len(names)); got.Condition.Digest == seen.Digest {
				t.Error("the snapshot lacks a change that came after the observation")
			}

			observe()
			proxy.Set(consultest.Cut)
			if _, err := c.Snapshot(t.Context(), task(spec)); err == nil {
				t.Error("a Consul that does not answer gave a snapshot")
			}
		})
	}
}

func TestSnapshot_ReadsByItselfWhereNothingIsKept(t *testing.T) {
	s := consultest.Start(t)
	put(t, s, &api.CatalogRegistration{Node: "node", Address: "10.0.0.1", Service: &api.AgentService{Service: "web", Port: 80}})
	proxy := consultest.NewProxy(t, s.Addr())
	c := client(t, proxy.Addr())
	c.KeepReadings()
	if a := c.Observe(t.Context(), []Query{query(t, services("web"))})[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	proxy.Reset()
	snapshot(t, c, task(services("web")))
	if n := serviceReads(proxy); n != 1 {
		t.Errorf("a single service was read %d times", n)
	}
}
