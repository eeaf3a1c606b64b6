// Package consultest runs real Consul servers for tests on free loopback ports, and a proxy that
// counts requests and can fail.
package consultest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// ManagementToken is the token with all rights on a server with ACLs.
const ManagementToken = "3f6b0f5c-6a3c-4f7e-8a59-d4a0c4b2f1aa"

const startTimeout = 30 * time.Second

// Server is a Consul server of one test.
type Server struct {
	t          testing.TB
	binary     string
	args       []string
	env        []string
	ports      map[string]int
	dir        string
	token      string
	process    *exec.Cmd
	exited     chan struct{}
	leaderless bool
	node       string
	cluster    []*Server // the servers of its cluster, including itself
}

// Option changes how a server is started.
type Option func(*Server)

// WithACLs enables ACLs that deny everything to requests without a token. Client uses
// ManagementToken.
func WithACLs() Option {
	return func(s *Server) {
		s.token = ManagementToken
		WithHCL(fmt.Sprintf(
			`acl { enabled = true, default_policy = "deny", tokens { initial_management = %q, agent = %q } }`,
			ManagementToken, ManagementToken))(s)
	}
}

// WithHCL adds to the agent's configuration.
func WithHCL(config string) Option {
	return func(s *Server) { s.args = append(s.args, "-hcl", config) }
}

// WithData keeps the server's data on disk, so that it survives Restart. Without it, a restarted
// server is empty and its indexes begin at 1.
func WithData() Option {
	return func(s *Server) {
		s.args = append(s.args, "-data-dir", filepath.Join(s.dir, "data"))
	}
}

// WithoutLeader starts a server that waits forever for other servers: it answers, but has no
// leader.
func WithoutLeader() Option {
	return func(s *Server) {
		s.leaderless = true
		// By default Consul waits for a leader before it reports that there is none.
		WithHCL(`performance { rpc_hold_timeout = "10ms" }`)(s)
	}
}

// Start runs a Consul server until the test ends. It returns when the server has a leader and has
// registered its own node.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := newServer(t, "consul-server", options)
	// Another process may have taken a port that was free before.
	var err error
	for range 5 {
		if s.ports, err = freePorts("http", "server", "serf_lan"); err != nil {
			t.Fatal(err)
		}
		if err = s.run(); err == nil {
			return s
		}
		s.Stop()
	}
	t.Fatalf("start consul: %v\n%s", err, s.log())
	return nil
}

func newServer(t testing.TB, node string, options []Option) *Server {
	t.Helper()
	s := &Server{t: t, binary: testtools.Consul(t), dir: t.TempDir(), node: node}
	for _, option := range options {
		option(s)
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CONSUL_") {
			s.env = append(s.env, kv)
		}
	}
	t.Cleanup(s.Stop)
	return s
}

// StartCluster runs three Consul servers that elect a leader, until the test ends. It returns when
// all of them know each other. Their data is on disk, so that each can be stopped, and started
// again with Restart.
func StartCluster(t testing.TB, options ...Option) []*Server {
	t.Helper()
	servers := make([]*Server, 3)
	for i := range servers {
		servers[i] = newServer(t, fmt.Sprintf("consul-server-%d", i+1), append([]Option{WithData()}, options...))
	}
	for _, s := range servers {
		s.cluster = servers
	}
	// Another process may have taken a port that was free before.
	var err error
	for range 5 {
		if err = startTogether(servers); err == nil {
			return servers
		}
		for _, s := range servers {
			s.Stop()
			if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("start a cluster of consul servers: %v\n%s", err, servers[0].log())
	return nil
}

func startTogether(servers []*Server) error {
	var names []string
	for _, s := range servers {
		for _, port := range []string{"http", "server", "serf_lan"} {
			names = append(names, s.node+" "+port)
		}
	}
	free, err := freePorts(names...) // all at once, so that they differ
	if err != nil {
		return err
	}
	for _, s := range servers {
		s.ports = map[string]int{}
		for _, port := range []string{"http", "server", "serf_lan"} {
			s.ports[port] = free[s.node+" "+port]
		}
	}
	for _, s := range servers {
		if err := s.launch(); err != nil {
			return err
		}
	}
	for _, s := range servers {
		if err := s.waitUntilReady(); err != nil {
			return err
		}
	}
	return nil
}

// Leads reports whether the server believes that it leads its cluster.
func (s *Server) Leads() bool {
	s.t.Helper()
	leader, err := s.Client().Status().Leader()
	return err == nil && leader == fmt.Sprintf("127.0.0.1:%d", s.ports["server"])
}

// Addr returns the host and port of the HTTP API.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.ports["http"]) }

// Client returns a client with all rights.
func (s *Server) Client() *api.Client {
	s.t.Helper()
	// Address and token are set, so that nothing comes from the environment of the test.
	client, err := api.NewClient(&api.Config{Address: s.Addr(), Scheme: "http", Token: s.token})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// Stop kills the server, as a crash would. It may be called again.
func (s *Server) Stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // fails only if it has ended already
	<-s.exited
	s.process = nil
}

// Restart kills the server and starts it again on the same ports.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	var err error
	for range 3 {
		if err = s.run(); err == nil {
			return
		}
		s.Stop()
	}
	s.t.Fatalf("restart consul: %v\n%s", err, s.log())
}

func (s *Server) run() error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.waitUntilReady()
}

// launch starts the process.
func (s *Server) launch() error {
	ports, err := json.Marshal(s.allPorts())
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "ports.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"ports": %s}`, ports), 0o600); err != nil {
		return err
	}
	log, err := os.Create(s.logPath())
	if err != nil {
		return err
	}
	defer log.Close()

	args := append([]string{"agent", "-config-file", config, "-node", s.node,
		"-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "warn",
		"-hcl", "disable_update_check = true, limits { http_max_conns_per_client = 10000 }",
		// The settings of -dev that make a single server fast.
		"-hcl", "performance { raft_multiplier = 1, leave_drain_time = \"0s\" }",
	}, s.args...)
	if s.cluster != nil {
		args = append(args, "-server", "-bootstrap-expect", strconv.Itoa(len(s.cluster)))
		for _, other := range s.cluster {
			args = append(args, "-retry-join", fmt.Sprintf("127.0.0.1:%d", other.ports["serf_lan"]), "-retry-interval", "1s")
		}
	} else if s.leaderless {
		args = append(args, "-server", "-bootstrap-expect", "3", "-data-dir", filepath.Join(s.dir, "data"))
	} else if !s.keepsData() {
		args = append(args, "-dev")
	} else {
		args = append(args, "-server", "-bootstrap-expect", "1")
	}
	s.process = exec.Command(s.binary, args...)
	s.process.Stdout, s.process.Stderr = log, log
	s.process.Env = s.env
	if err := testtools.StartWithTest(s.process); err != nil {
		s.process = nil
		return err
	}
	s.exited = make(chan struct{})
	go func(process *exec.Cmd, exited chan struct{}) {
		_ = process.Wait() // its log says how it ended
		close(exited)
	}(s.process, s.exited)
	return nil
}

func (s *Server) keepsData() bool {
	for _, arg := range s.args {
		if arg == "-data-dir" {
			return true
		}
	}
	return false
}

func (s *Server) allPorts() map[string]int {
	ports := map[string]int{"https": -1, "grpc": -1, "grpc_tls": -1, "dns": -1, "serf_wan": -1}
	for name, port := range s.ports {
		ports[name] = port
	}
	return ports
}

func (s *Server) waitUntilReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client := s.Client()
	for {
		ready, err := s.ready(ctx, client)
		if ready {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", startTimeout, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) ready(ctx context.Context, client *api.Client) (bool, error) {
	query := (&api.QueryOptions{}).WithContext(ctx)
	leader, err := client.Status().LeaderWithQueryOptions(query)
	if err != nil || s.leaderless {
		return err == nil, err
	}
	if leader == "" {
		return false, errors.New("no leader")
	}
	// The leader registers the server, then the agent adds data about its node. After that, nothing
	// changes by itself.
	instances, _, err := client.Catalog().Service("consul", "", query)
	if err != nil || len(instances) < max(1, len(s.cluster)) {
		return false, err
	}
	return len(instances[0].NodeMeta) > 0, nil
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "consul.log") }

func (s *Server) log() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// freePorts finds TCP ports that nothing listens on. It keeps all of them open until it has found
// enough, so that they differ.
func freePorts(names ...string) (map[string]int, error) {
	ports := map[string]int{}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
