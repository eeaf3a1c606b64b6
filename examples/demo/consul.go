package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// startConsul starts a server on free ports and waits until it leads and has registered its own
// node.
func startConsul(ctx context.Context, program, dir string) (*consul, error) {
	args := []string{"agent", "-dev", "-node", "demo", "-bind", "127.0.0.1", "-client", "127.0.0.1",
		"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1", "-grpc-tls-port", "-1",
		"-hcl", "disable_update_check = true"}
	c := &consul{}
	flags := []string{"-server-port", "-serf-lan-port", "-http-port"}
	ports, err := freePorts(len(flags))
	if err != nil {
		return nil, err
	}
	for i, port := range ports {
		args = append(args, flags[i], fmt.Sprint(port))
		c.addr = fmt.Sprintf("127.0.0.1:%d", port) // of the last one
	}
	// The environment may point to another Consul.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CONSUL_") })
	if c.process, err = startProcess(filepath.Join(dir, "consul.log"), dir, env, program, args...); err != nil {
		return nil, err
	}
	if c.client, err = api.NewClient(&api.Config{Address: c.addr, Scheme: "http"}); err == nil {
		err = c.await(ctx, consulTimeout, func() error {
			nodes, _, err := c.client.Catalog().Nodes((&api.QueryOptions{}).WithContext(ctx))
			if err == nil && len(nodes) == 0 {
				err = errors.New("it has not registered its own node")
			}
			return err
		})
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// freePorts finds TCP ports of this machine that nothing listens on. They differ: all of them are
// taken until the last one is found.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
