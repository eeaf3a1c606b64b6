package stores

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/consulkv"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

var consulFolder = kind{
	scheme: "consul", form: "consul:PATH",
	about: "the folder of a cluster, such as consul:consul-terraform-sync/NAME, in the Consul at CONSUL_HTTP_ADDR",
	at: func(_ context.Context, url string) (Place, error) {
		path := strings.TrimPrefix(url, "consul:")
		if strings.Trim(path, "/") == "" {
			return Place{}, fmt.Errorf("store %q names no path: write consul:PATH, such as consul:consul-terraform-sync/NAME of the cluster", url)
		}
		cfg, err := config.ConsulOf(os.Getenv)
		if err != nil {
			return Place{}, err
		}
		p := clusterFolder(cfg, path, "")
		p.write = refused(url, "this store belongs to a cluster: start uses it if high_availability is configured")
		return p, nil
	},
}

// clusterFolder is the store that the instances of a cluster share.
func clusterFolder(cfg config.Consul, path, namespace string) Place {
	open := func(context.Context) (state.Store, error) { return consulkv.Open(cfg, path, namespace) }
	// A write to Consul's KV moves the gate of KV conditions and so starts a tick:
	// output is written about as often as a claim is renewed.
	return Place{Kind: "consul", Where: path, LiveOutput: 5 * time.Second, read: open, write: open, change: open}
}
