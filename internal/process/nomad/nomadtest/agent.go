// Package nomadtest runs real Nomad agents for tests, each a server and a client on free ports of the
// loopback address.
package nomadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	startTimeout = time.Minute
	// stopTimeout is how long an agent may take to stop what it runs.
	stopTimeout = 30 * time.Second
)

// Agent is a Nomad agent of one test.
type Agent struct {
	t       testing.TB
	dir     string
	port    int
	token   string // with all rights; "" without ACLs
	process *exec.Cmd
	exited  chan struct{}
	acls    bool
	denied  string   // fingerprints that its client does not take
	options []string // of its configuration
}

// Option changes how an agent is started.
type Option func(*Agent)

// WithACLs denies everything to requests without a token.
func WithACLs() Option {
	return func(a *Agent) { a.acls, a.options = true, append(a.options, "acl {\n  enabled = true\n}") }
}

// WithConsul registers services in a Consul, and logs tasks in to it with their identities.
func WithConsul(address, token string) Option {
	const consul = `
consul {
  address = %q
  token   = %q
  service_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
  task_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
}`
	return func(a *Agent) {
		a.denied = strings.Replace(a.denied, ",consul", "", 1)
		a.options = append(a.options, fmt.Sprintf(consul, address, token))
	}
}

// WithVault accepts jobs that use Vault. There is none that would give them secrets.
func WithVault() Option {
	return func(a *Agent) {
		a.options = append(a.options, `
vault {
  enabled = true
  address = "http://127.0.0.1:1"
  default_identity {
    aud = ["vault.io"]
    ttl = "1h"
  }
}`)
	}
}

// Start runs an agent until the test ends. It returns when its client is ready. Where the driver
// raw_exec cannot run, the test is skipped.
func Start(t testing.TB, options ...Option) *Agent {
	t.Helper()
	program := testtools.Nomad(t)
	// In its folder are sockets, whose paths have at most 108 characters: those of t.TempDir are longer.
	dir, err := os.MkdirTemp("", "nomad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	a := &Agent{t: t, dir: dir, denied: "env_aws,env_gce,env_azure,env_digitalocean,bridge,cni,consul,vault"}
	for _, option := range options {
		option(a)
	}
	for range 3 { // another process may have taken a port that was free before
		if err = a.start(program); err == nil {
			break
		}
		a.stop()
	}
	if err != nil {
		log, _ := os.ReadFile(a.path("log"))
		t.Fatalf("start nomad: %v\n%s", err, log)
	}
	t.Cleanup(a.stop)
	return a
}

func (a *Agent) path(name string) string { return filepath.Join(a.dir, name) }

// Addr returns the URL of the agent.
func (a *Agent) Addr() string { return fmt.Sprintf("http://127.0.0.1:%d", a.port) }

// Token returns a token with all rights; "" without ACLs.
func (a *Agent) Token() string { return a.token }

const config = `
bind_addr = "127.0.0.1"
disable_update_check = true
ports {
  http = %d
  rpc  = %d
  serf = %d
}
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
client {
  enabled           = true
  servers           = ["127.0.0.1:%d"]
  alloc_dir         = "%[5]s/alloc"
  state_dir         = "%[5]s/state"
  max_kill_timeout  = "2m"
  cpu_total_compute = 4000
  memory_total_mb   = 2000
  options = {
    "fingerprint.denylist" = "%[6]s"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

func (a *Agent) start(program string) error {
	ports, err := freePorts()
	if err != nil {
		return err
	}
	a.port = ports[0]
	text := fmt.Sprintf(config, ports[0], ports[1], ports[2], ports[1], a.dir, a.denied) + strings.Join(a.options, "\n")
	if err := os.WriteFile(a.path("agent.hcl"), []byte(text), 0o600); err != nil {
		return err
	}
	tmp := a.path("tmp") // where an agent with -dev keeps what else it needs
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	log, err := os.Create(a.path("log"))
	if err != nil {
		return err
	}
	defer log.Close()
	a.process = exec.Command(program, "agent", "-dev", "-config", a.path("agent.hcl"))
	a.process.Stdout, a.process.Stderr = log, log
	a.process.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "NOMAD_") || strings.HasPrefix(kv, "CONSUL_") || strings.HasPrefix(kv, "VAULT_")
	}), "TMPDIR="+tmp)
	if err := testtools.StartWithTest(a.process); err != nil {
		a.process = nil
		return err
	}
	a.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		_ = process.Wait() // its log says how it ended
		close(exited)
	}(a.process, a.exited)
	return a.ready()
}

// freePorts finds ports that nothing listens on. It keeps all of them open until it has found them,
// so that they differ.
func freePorts() (ports [3]int, err error) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// ready waits until the client is ready and, with ACLs, until there is a token.
func (a *Agent) ready() error {
	var last error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-a.exited:
			return errors.New("it ended at once")
		default:
		}
		if a.acls && a.token == "" {
			var made struct{ SecretID string }
			if last = a.Call(http.MethodPost, "acl/bootstrap", nil, &made); last != nil {
				continue
			}
			a.token = made.SecretID
		}
		var nodes []struct {
			Status  string
			Drivers map[string]struct{ Healthy bool }
		}
		if last = a.Call(http.MethodGet, "nodes", nil, &nodes); last != nil {
			continue
		}
		if len(nodes) == 1 && nodes[0].Status == "ready" && nodes[0].Drivers["raw_exec"].Healthy {
			return nil
		}
		last = fmt.Errorf("its client is not ready: %+v", nodes)
	}
	return last
}

// Call sends a request with all rights, and decodes the answer into out unless that is nil.
func (a *Agent) Call(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.Addr()+"/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Nomad-Token", a.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Command runs a command of Nomad's program with all rights, and returns what it prints.
func (a *Agent) Command(args ...string) (string, error) {
	cmd := exec.Command(testtools.Nomad(a.t), args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "NOMAD_") }),
		"NOMAD_ADDR="+a.Addr(), "NOMAD_TOKEN="+a.token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Run registers a job.
func (a *Agent) Run(job string) {
	a.t.Helper()
	file := a.path("job.hcl")
	if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if out, err := a.Command("job", "run", "-detach", file); err != nil {
		a.t.Fatalf("register a job: %v\n%s", err, out)
	}
}

// TokenFor returns a token that has only the rights of a policy.
func (a *Agent) TokenFor(name, policy string) string {
	a.t.Helper()
	if err := a.Call(http.MethodPost, "acl/policy/"+name, map[string]string{"Name": name, "Rules": policy}, nil); err != nil {
		a.t.Fatal(err)
	}
	var made struct{ SecretID string }
	if err := a.Call(http.MethodPost, "acl/token", map[string]any{"Name": name, "Type": "client", "Policies": []string{name}}, &made); err != nil {
		a.t.Fatal(err)
	}
	return made.SecretID
}

// Job is a dispatched job.
type Job struct{ ID, Status string }

// Dispatched returns the jobs that were dispatched from a job.
func (a *Agent) Dispatched(job string) (jobs []Job) {
	a.t.Helper()
	if err := a.Call(http.MethodGet, "jobs?prefix="+job+"/dispatch-", nil, &jobs); err != nil {
		a.t.Fatal(err)
	}
	return jobs
}

// stop ends the agent, which in this mode ends everything that it runs and removes its files.
func (a *Agent) stop() {
	if a.process == nil {
		return
	}
	_ = a.process.Process.Signal(os.Interrupt) // fails only if it has ended already
	select {
	case <-a.exited:
	case <-time.After(stopTimeout):
		_ = a.process.Process.Kill()
		<-a.exited
	}
	a.process = nil
	unmount(a.dir)
}
