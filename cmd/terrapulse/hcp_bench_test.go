package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkHCP measures the time from a change in Consul to the success of its run in HCP Terraform,
// without notifications, beside the time for which HCP Terraform works itself.
func BenchmarkHCP(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	for _, latency := range []time.Duration{0, 100 * time.Millisecond} {
		for _, works := range []time.Duration{5 * time.Second, 30 * time.Second} {
			b.Run(fmt.Sprintf("it works for %s, a request takes %s", works, latency), func(b *testing.B) {
				rounds := 5
				if works > 10*time.Second {
					rounds = 2
				}
				const bound = 3 * time.Second
				late, requests := remoteLatency(b, works, latency, rounds)
				verdict := "met"
				if late > bound {
					verdict = "NOT MET"
					b.Errorf("applied %s later than HCP Terraform needs, bound %s", late, bound)
				}
				fmt.Printf("HCP Terraform works for %s, a request takes %s: applied %s later, %d requests; bound %s: %s\n",
					works, latency, late.Round(10*time.Millisecond), requests, bound, verdict)
			})
		}
	}
}

// remoteLatency returns the median of how much later than HCP Terraform needs a change is applied,
// and the requests for a change.
func remoteLatency(b *testing.B, works, latency time.Duration, rounds int) (time.Duration, int) {
	s, hcp := newSite(b), hcptest.New(b, hcptest.WithoutTerraform())
	s.env = append(s.env, "TFC_HOSTNAME="+slowly(b, hcp.URL, latency), "TFC_ORGANIZATION="+hcp.Organization, "TFC_TOKEN="+hcp.Token)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.write("cts.hcl", s.cloudFile(testtools.FreePort(b), "")))
	succeeded := func() int { return strings.Count(p.stderr.String(), "run succeeded") }
	long(b, "the first run", func() bool { return succeeded() == 1 })
	var all []time.Duration
	requests := 0
	for round := range rounds {
		plan, apply := hcp.Hold("planning"), hcp.Hold("applying")
		before := len(hcp.Requests())
		began := time.Now()
		s.register("web", "web-1", 9000+round, "passing")
		run := hcp.AwaitRun("cts-lb", round+2)
		hcp.Await(run.ID, "planning")
		// Other fractions of a second in each round: polls must not fit by luck.
		plans := works/5 + time.Duration(round)*210*time.Millisecond
		time.Sleep(plans)
		plan.Release()
		hcp.Await(run.ID, "applying")
		time.Sleep(works - works/5)
		apply.Release()
		long(b, "the run has succeeded", func() bool { return succeeded() == round+2 })
		all = append(all, time.Since(began)-plans-(works-works/5))
		requests = len(hcp.Requests()) - before
		time.Sleep(time.Second)
	}
	p.stop()
	slices.Sort(all)
	return all[len(all)/2], requests
}

// slowly is a proxy for HTTP that takes its time.
func slowly(b *testing.B, to string, latency time.Duration) string {
	target, err := url.Parse(to)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		proxy.ServeHTTP(w, r)
	}))
	b.Cleanup(server.Close)
	return server.URL
}
