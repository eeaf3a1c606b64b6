package consultest

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
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
	work := make(chan string)
	errs := make(chan error, connections)
	for range connections {
		go func() {
			var failed error
			for name := range work {
				if _, _, err := client.Health().Service(name, "", false, nil); err != nil {
					failed = err
				}
			}
			errs <- failed
		}()
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	for range connections {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}
