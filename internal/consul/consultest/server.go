// Package consultest runs real Consul servers for tests on free loopback ports, and a proxy that
// counts requests and can fail.
package consultest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-version"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// ManagementToken is the token with all rights on a server with ACLs.
const ManagementToken = "3f6b0f5c-6a3c-4f7e-8a59-d4a0c4b2f1aa"

const startTimeout = 30 * time.Second

// Server is a Consul server of one test.
type Server struct {
	t                testing.TB
	dir, node, token string
	args             []string
	keepsData        bool
	leaderless       bool
	program          string    // "" for the version that is tested
	of               *Server   // a client agent's server
	cluster          []*Server // the servers of its cluster, including itself

	http, server, serf int // ports
	peering            bool
	grpcTLS            int // port; -1 without peering
	https              int // port; -1 without WithTLS
	tls                bool
	process            *exec.Cmd
	exited             chan struct{}
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
func WithData() Option { return func(s *Server) { s.keepsData = true } }

// WithoutLeader starts a server that waits forever for other servers: it answers, but has no
// leader.
func WithoutLeader() Option {
	return func(s *Server) {
		s.leaderless, s.keepsData = true, true
		// By default Consul waits for a leader before it reports that there is none.
		WithHCL(`performance { rpc_hold_timeout = "10ms" }`)(s)
	}
}

// WithProgram runs another Consul binary.
func WithProgram(path string) Option { return func(s *Server) { s.program = path } }

// StartAgent runs a client agent of a server until the test ends. It returns when the server has
// its node.
func StartAgent(t testing.TB, of *Server, options ...Option) *Server {
	t.Helper()
	agent := func(s *Server) { s.of, s.cluster, s.token = of, []*Server{of}, of.token }
	// Several agents may have the same server.
	return start(t, []string{"consul-agent-" + rand.Text()}, append([]Option{agent}, options...))[0]
}

// Start runs a Consul server until the test ends. It returns when the server has a leader, has
// registered its own node and changes nothing by itself any more.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	return start(t, []string{"consul-server"}, options)[0]
}

// StartCluster runs three Consul servers that elect a leader, until the test ends. It returns when
// all of them know each other. Their data is on disk, so that each can be stopped, and started
// again with Restart.
func StartCluster(t testing.TB, options ...Option) []*Server {
	t.Helper()
	return start(t, []string{"consul-server-1", "consul-server-2", "consul-server-3"}, append(options, WithData()))
}

func start(t testing.TB, nodes []string, options []Option) []*Server {
	t.Helper()
	servers := make([]*Server, len(nodes))
	for i, node := range nodes {
		servers[i] = &Server{t: t, dir: t.TempDir(), node: node, cluster: servers}
		for _, option := range options {
			option(servers[i])
		}
		t.Cleanup(servers[i].Stop)
	}
	// Another process may have taken a port that was free before.
	var err error
	for range 5 {
		if err = choosePorts(servers); err != nil {
			t.Fatal(err)
		}
		if err = run(servers...); err == nil {
			return servers
		}
		for _, s := range servers {
			s.Stop()
			if err := os.RemoveAll(s.path("data")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("start consul: %v\n%s", err, servers[0].log())
	return nil
}

// choosePorts finds TCP ports that nothing listens on. It keeps all of them open until it has found
// enough, so that they differ.
func choosePorts(servers []*Server) error {
	for _, s := range servers {
		ports := []*int{&s.http, &s.server, &s.serf}
		if s.https, s.grpcTLS = -1, -1; s.tls {
			ports = append(ports, &s.https)
		}
		if s.peering {
			ports = append(ports, &s.grpcTLS)
		}
		for _, port := range ports {
			l, err := listen()
			if err != nil {
				return fmt.Errorf("find a free port: %w", err)
			}
			defer l.Close()
			*port = l.Addr().(*net.TCPAddr).Port
		}
	}
	return nil
}

// listen opens a port that the system gives to no client: while a server is stopped, one of another
// process could have it.
func listen() (l net.Listener, err error) {
	for range 20 {
		if l, err = net.Listen("tcp", address(10_000+mathrand.IntN(20_000))); err == nil {
			break
		}
	}
	return l, err
}

func run(servers ...*Server) error {
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

// AtLeast reports whether this version of Consul or a newer one runs.
func (s *Server) AtLeast(oldest string) bool {
	s.t.Helper()
	self, err := s.Client().Agent().Self()
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := version.NewVersion(self["Config"]["Version"].(string))
	if err != nil {
		s.t.Fatal(err)
	}
	return found.GreaterThanOrEqual(version.Must(version.NewVersion(oldest)))
}

// Leads reports whether the server believes that it leads its cluster.
func (s *Server) Leads() bool {
	s.t.Helper()
	leader, err := s.Client().Status().Leader()
	return err == nil && leader == address(s.server)
}

// Addr returns the host and port of the HTTP API.
func (s *Server) Addr() string { return address(s.http) }

// TLSAddr returns the host and port of the HTTPS API, which a server has WithTLS.
func (s *Server) TLSAddr() string { return address(s.https) }

// WithTLS lets the server also serve HTTPS, for clients with a certificate of the same authority.
func WithTLS(ca, cert, key string) Option {
	return func(s *Server) {
		s.tls = true
		WithHCL(fmt.Sprintf("tls { https { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }", ca, cert, key))(s)
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

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
		if err = run(s); err == nil {
			return
		}
		s.Stop()
	}
	s.t.Fatalf("restart consul: %v\n%s", err, s.log())
}

// launch starts the process.
func (s *Server) launch() error {
	log, err := os.Create(s.path("consul.log"))
	if err != nil {
		return err
	}
	defer log.Close()

	args := []string{"agent", "-node", s.node, "-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "warn",
		"-hcl", fmt.Sprintf("ports { http = %d, server = %d, serf_lan = %d, https = %d, grpc = -1, grpc_tls = %d, dns = -1, serf_wan = -1 }",
			s.http, s.server, s.serf, s.https, s.grpcTLS),
		"-hcl", "disable_update_check = true, limits { http_max_conns_per_client = 10000 }",
		// The settings of -dev that make a single server fast.
		"-hcl", "performance { raft_multiplier = 1, leave_drain_time = \"0s\" }",
	}
	expected := len(s.cluster)
	if s.leaderless {
		expected = 3
	}
	switch {
	case s.of != nil:
		args = append(args, "-data-dir", s.path("data"))
	case s.keepsData:
		args = append(args, "-server", "-data-dir", s.path("data"), "-bootstrap-expect", strconv.Itoa(expected))
	default:
		args = append(args, "-dev")
	}
	for _, other := range s.cluster {
		if other != s {
			args = append(args, "-retry-join", address(other.serf), "-retry-interval", "1s")
		}
	}
	s.process = exec.Command(cmp.Or(s.program, testtools.Consul(s.t)), append(args, s.args...)...)
	s.process.Stdout, s.process.Stderr = log, log
	s.process.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CONSUL_") })
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

func (s *Server) waitUntilReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, query := s.Client(), (&api.QueryOptions{}).WithContext(ctx)
	for {
		err := s.ready(client, query)
		if err == nil {
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

func (s *Server) ready(client *api.Client, query *api.QueryOptions) error {
	if s.leaderless {
		_, err := client.Status().LeaderWithQueryOptions(query)
		return err
	}
	if s.of != nil {
		node, _, err := s.of.Client().Catalog().Node(s.node, query)
		if err == nil && (node == nil || len(node.Node.TaggedAddresses) == 0) {
			return errors.New("its server does not have its node")
		}
		return err
	}
	// The leader registers the server, then its agent adds the node's addresses. After that,
	// nothing changes by itself.
	instances, _, err := client.Catalog().Service("consul", "", query)
	complete := 0
	for _, instance := range instances {
		if len(instance.TaggedAddresses) > 0 {
			complete++
		}
	}
	if err == nil && complete < max(1, len(s.cluster)) {
		return errors.New("it has not registered itself")
	}
	return err
}

func (s *Server) log() string {
	log, err := os.ReadFile(s.path("consul.log"))
	if err != nil {
		return err.Error()
	}
	return string(log)
}
