package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulTimeout limits Consul's election of its leader, which usually takes two seconds.
const consulTimeout = 20 * time.Second

// consul is a server without data on disk.
type consul struct {
	*process
	addr   string // of the HTTP API
	client *api.Client
}

// startConsul starts a server on free ports and waits until it can be used.
func startConsul(ctx context.Context, program, dir string) (*consul, error) {
	var ports [3]int
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	c := &consul{addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}

	// The environment may point to another Consul.
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CONSUL_") {
			env = append(env, kv)
		}
	}
	var err error
	c.process, err = startProcess("consul", filepath.Join(dir, "consul.log"), command{
		path: program,
		args: []string{"agent", "-dev", "-node", "demo", "-bind", "127.0.0.1", "-client", "127.0.0.1",
			"-http-port", fmt.Sprint(ports[0]), "-server-port", fmt.Sprint(ports[1]), "-serf-lan-port", fmt.Sprint(ports[2]),
			"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1", "-grpc-tls-port", "-1",
			"-hcl", "disable_update_check = true"},
		dir: dir,
		env: env,
	})
	if err != nil {
		return nil, err
	}
	if c.client, err = api.NewClient(&api.Config{Address: c.addr, Scheme: "http"}); err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// await waits until the server leads and has registered its own node.
func (c *consul) await(ctx context.Context) error {
	deadline := time.After(consulTimeout)
	for {
		nodes, _, err := c.client.Catalog().Nodes((&api.QueryOptions{}).WithContext(ctx))
		if err == nil && len(nodes) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.failure(errors.New("it ended by itself"))
		case <-deadline:
			return c.failure(fmt.Errorf("not ready after %s: %w", consulTimeout, err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort finds a TCP port of this machine that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
