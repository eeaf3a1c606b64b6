package consultest

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"
)

// ReadServices returns the time that a plain client needs to read the instances of services from a
// Consul server over 16 connections, as many as Terrapulse uses. Limits on the time of a tick are
// ratios to it.
func ReadServices(t testing.TB, address string, names []string) time.Duration {
	t.Helper()
	const connections = 16
	config := api.DefaultConfig()
	config.Address = address
	config.Transport.MaxIdleConnsPerHost = connections
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(connections)
	for _, name := range names {
		group.Go(func() error {
			_, _, err := client.Health().Service(name, "", false, nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}
