package examine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/suggest"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Misspelt returns a warning for each service that a task selects by its name and that Consul does not have, if
// Consul has one of nearly that name. What cannot be read counts as right.
func Misspelt(ctx context.Context, client *consul.Client, tasks []*config.Task) (warnings []string) {
	known := map[condition.Scope][]string{}
	for _, t := range tasks {
		for _, feed := range t.Feeds() {
			at := feed.Scope
			if feed.Of != condition.OfService || feed.Name == "" || at.Peer != "" {
				continue
			}
			if _, read := known[at]; !read {
				all, meta, err := client.API().Catalog().Services((&api.QueryOptions{Datacenter: at.Datacenter, Namespace: at.Namespace}).WithContext(ctx))
				if known[at] = nil; err == nil && !meta.ResultsFilteredByACLs {
					known[at] = slices.Sorted(maps.Keys(all))
				}
			}
			if near, found := suggest.Nearest(feed.Name, known[at]); found && near != feed.Name {
				warnings = append(warnings, fmt.Sprintf("task %s: Consul has no service %q; did you mean %q?", t.Name, feed.Name, near))
			}
		}
	}
	return warnings
}
