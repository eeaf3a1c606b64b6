package registration

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// limit limits how long a test waits.
const limit = 20 * time.Second

// load loads a configuration from text.
func load(t *testing.T, address, more string) *config.Config {
	t.Helper()
	file := t.TempDir() + "/cts.hcl"
	write(t, file, `id = "cts-one"
consul {
  address = "`+address+`"
  service_registration {
    `+more+`
  }
}
`)
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: file}}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// running is a Registration under test.
type running struct {
	log  *testtools.Output
	stop context.CancelFunc
	done chan struct{}
}

func run(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	c, err := consul.New(cfg.Consul)
	if err != nil {
		t.Fatal(err)
	}
	l := &testtools.Output{}
	r := New(c.API(), Service(cfg), slog.New(slog.NewTextHandler(l, nil)))
	r.pace = pace{check: 50 * time.Millisecond, wait: time.Millisecond, answer: time.Second}
	ctx, stop := context.WithCancel(context.Background())
	running := &running{log: l, stop: stop, done: make(chan struct{})}
	go func() {
		r.Run(ctx)
		close(running.done)
	}()
	t.Cleanup(running.end)
	return running
}

func (r *running) end() {
	r.stop()
	<-r.done
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// agent simulates an agent and records the requests.
type agent struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, path and query
	body     string
	status   func(n int) int // of the answer to the nth registration
	puts     int
}

func newAgent(t *testing.T, status func(int) int) *agent {
	a := &agent{status: status}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.Method+" "+r.URL.String())
	switch {
	case strings.HasSuffix(r.URL.Path, "/register"):
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		a.body = b.String()
		a.puts++
		if code := a.status(a.puts); code != http.StatusOK {
			http.Error(w, "Permission denied", code)
		}
	case r.Method == http.MethodGet:
		_, _ = w.Write([]byte("{}"))
	}
}

func (a *agent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.puts
}

func allWell(int) int { return http.StatusOK }

func TestService_EqualsThatOfConsulTerraformSync(t *testing.T) {
	for name, c := range map[string]struct{ hcl, want string }{
		"as it comes": {"", `{"ID":"cts-one","Name":"consul-terraform-sync","Tags":["cts"],"Port":8558,"Check":null,"Checks":[{
			"CheckID":"cts-one-health","Name":"CTS Health Status","Interval":"10s","Timeout":"2s","HTTP":"http://localhost:8558/v1/health",
			"Method":"GET","Status":"critical","Notes":"Check created by Consul-Terraform-Sync","TLSSkipVerify":true,"DeregisterCriticalServiceAfter":"30m"}]}`},
		"without a check": {`default_check { enabled = false }`,
			`{"ID":"cts-one","Name":"consul-terraform-sync","Tags":["cts"],"Port":8558,"Check":null,"Checks":null}`},
		"with everything": {`service_name = "net" address = "10.1.2.3" namespace = "ops" default_check { address = "https://me.example.com:1/" }`,
			`{"ID":"cts-one","Name":"net","Tags":["cts"],"Port":8558,"Address":"10.1.2.3","Namespace":"ops","Check":null,"Checks":[{
			"CheckID":"cts-one-health","Name":"CTS Health Status","Interval":"10s","Timeout":"2s","HTTP":"https://me.example.com:1/v1/health",
			"Method":"GET","Status":"critical","Notes":"Check created by Consul-Terraform-Sync","TLSSkipVerify":true,"DeregisterCriticalServiceAfter":"30m"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, allWell)
			r := run(t, load(t, a.URL, c.hcl))
			eventually(t, "a request", func() bool { return a.count() > 0 })
			r.end()
			a.mu.Lock()
			defer a.mu.Unlock()
			var got, want any
			if err := json.Unmarshal([]byte(a.body), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			ns := ""
			if strings.Contains(c.hcl, "namespace") {
				ns = "?ns=ops"
			}
			// A check that the end interrupts may come to the agent last.
			puts := slices.DeleteFunc(slices.Clone(a.requests), func(request string) bool { return strings.HasPrefix(request, http.MethodGet) })
			first, last := puts[0], puts[len(puts)-1]
			if !strings.HasPrefix(first, "PUT /v1/agent/service/register") || last != "PUT /v1/agent/service/deregister/cts-one"+ns {
				t.Errorf("requests = %q", a.requests)
			}
		})
	}
	t.Run("over TLS, if the API is", func(t *testing.T) {
		cfg := load(t, "localhost:8500", "")
		cfg.TLS.Enabled, cfg.Port = true, 9443
		if got := Service(cfg).Checks[0].HTTP; got != "https://localhost:9443/v1/health" {
			t.Errorf("check = %s", got)
		}
	})
}

func TestService_CheckFollowsTheBindAddress(t *testing.T) {
	for bound, want := range map[string]string{
		"": "http://localhost:8558/v1/health", "0.0.0.0": "http://localhost:8558/v1/health", "::": "http://localhost:8558/v1/health",
		"10.0.0.5": "http://10.0.0.5:8558/v1/health", "2001:db8::1": "http://[2001:db8::1]:8558/v1/health",
	} {
		cfg := load(t, "localhost:8500", "")
		cfg.API.BindAddress = bound
		if got := Service(cfg).Checks[0].HTTP; got != want {
			t.Errorf("bound to %q: check %s, want %s", bound, got, want)
		}
	}
}

func TestRun_RetriesFailures(t *testing.T) {
	t.Run("what may pass, eight times in a row", func(t *testing.T) {
		for _, code := range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
			a := newAgent(t, func(n int) int {
				if n <= retries {
					return code
				}
				return http.StatusOK
			})
			r := run(t, load(t, a.URL, ""))
			eventually(t, "the last is well", func() bool { return strings.Contains(r.log.String(), `msg="registered in Consul"`) })
			if a.count() != 1+retries || strings.Contains(r.log.String(), "ERROR") {
				t.Errorf("%d requests\n%s", a.count(), r.log)
			}
		}
	})
	t.Run("a refusal now and then, and said once", func(t *testing.T) {
		a := newAgent(t, func(n int) int {
			if n <= 3 {
				return http.StatusForbidden
			}
			return http.StatusOK
		})
		r := run(t, load(t, a.URL, ""))
		eventually(t, "it was granted", func() bool { return strings.Contains(r.log.String(), `msg="registered in Consul"`) })
		if n := strings.Count(r.log.String(), `missing required Consul ACL: the token (consul.token, CONSUL_HTTP_TOKEN) needs service:write on \"consul-terraform-sync\"`); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, r.log)
		}
	})
}

func TestRun_EndsAtOnceWithoutARegistration(t *testing.T) {
	hung := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hung)
	r := run(t, load(t, server.URL, ""))
	began := time.Now()
	r.end()
	if took := time.Since(began); took > withdrawTime+limit/2 {
		t.Errorf("the end took %s", took)
	}
}

func TestRun_RegistersRestoresAndDeregisters(t *testing.T) {
	s := consultest.Start(t)
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/health" {
			http.NotFound(w, r)
		}
	}))
	defer health.Close()
	cfg := load(t, s.Addr(), `address = "127.0.0.1" default_check { address = "`+health.URL+`" }`)
	r := run(t, cfg)
	entries := func() []*api.ServiceEntry {
		got, _, err := s.Client().Health().Service("consul-terraform-sync", "cts", false, nil)
		if err != nil {
			return nil
		}
		return got
	}
	eventually(t, "the check is well", func() bool {
		got := entries()
		return len(got) == 1 && got[0].Checks.AggregatedStatus() == api.HealthPassing
	})
	got := entries()[0]
	if got.Service.ID != "cts-one" || got.Service.Address != "127.0.0.1" || got.Service.Port != 8558 {
		t.Errorf("service = %+v", got.Service)
	}

	s.Restart() // without data: it knows nothing
	eventually(t, "the agent knows it again", func() bool { return len(entries()) == 1 })
	if !strings.Contains(r.log.String(), "has lost this service") {
		t.Errorf("it is not said:\n%s", r.log)
	}

	r.end()
	eventually(t, "it is gone", func() bool { return len(entries()) == 0 })
}

func TestRun_ReportsAMissingRight(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	r := run(t, load(t, s.Addr(), ""))
	eventually(t, "it is said", func() bool { return strings.Contains(r.log.String(), "missing required Consul ACL") })
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
