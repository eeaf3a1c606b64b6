package consul

import (
	"context"
	"sync"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// keptFrom is the number of views from which a reading is kept. Below it, a few reads are
// no more than the gates that show whether the reading still holds.
const keptFrom = 100

// kept is what the latest Observe has read, for a Snapshot: a first run with thousands
// of services would read each of them twice in a row. It holds as long as no gate has
// moved since before it was read.
type kept struct {
	mu     sync.Mutex
	gates  GateSet
	marks  Marks
	loaded map[condition.View]loaded
}

// KeepReadings has c keep what Observe reads until a Snapshot takes it. It is for a
// process that ends soon: much of Consul may be in memory for that time.
func (c *Client) KeepReadings() { c.kept = &kept{} }

// begin returns the gates of the queries, with their marks before the queries are read.
func (k *kept) begin(ctx context.Context, c *Client, queries []Query) (GateSet, Marks) {
	gates := PollGates(queries)
	marks, _ := c.Poll(ctx, gates) // a gate without a mark has moved
	return gates, marks
}

func (k *kept) end(r *reading, gates GateSet, marks Marks) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = nil
	if len(r.loaded) >= keptFrom {
		k.gates, k.marks, k.loaded = gates, marks, r.loaded
	}
}

// reuse gives a reading the kept views of a task that still hold. Each view is given
// once: who renders it owns it.
func (c *Client) reuse(ctx context.Context, r *reading, t *config.Task) {
	k := c.kept
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.loaded) == 0 {
		return
	}
	queries := []Query{}
	for _, q := range InputQueries(t) {
		queries = append(queries, q.Query)
	}
	marks, _ := c.Poll(ctx, k.gates)
	moved := k.gates.Moved(k.marks, marks)
	for _, q := range queries {
		if moved(q) {
			continue
		}
		for _, p := range q.parts {
			k.give(r, p.Views())
			if _, chooses := p.(condition.Chooser); !chooses {
				continue
			}
			if list, given := r.loaded[p.Views()[0]]; given && list.err == nil {
				views, _ := r.viewsOf(p) // no error: the list is there
				k.give(r, views)
			}
		}
	}
}

func (k *kept) give(r *reading, views []condition.View) {
	for _, v := range views {
		if l, ok := k.loaded[v]; ok && l.err == nil && l.contents != nil {
			r.loaded[v] = l
			delete(k.loaded, v)
		}
	}
}
