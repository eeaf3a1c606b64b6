package apiclient

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// TaskStatus is the status of a task.
type TaskStatus struct {
	Enabled bool   `json:"enabled"`
	Status  string `json:"status"` // successful, errored, critical or unknown
}

// TaskOverview is what is known of a task, also of a removed one.
func (c *Client) TaskOverview(ctx context.Context, name string) (apispec.TaskOverview, error) {
	answer, err := get[apispec.TaskOverviewResponse](ctx, c, taskPath(name)+"/overview", nil)
	return answer.Task, err
}

// TaskStatuses returns the statuses of all tasks, by name. Every version of
// Consul-Terraform-Sync answers this.
func (c *Client) TaskStatuses(ctx context.Context) (map[string]TaskStatus, error) {
	return get[map[string]TaskStatus](ctx, c, "v1/status/tasks", nil)
}

// Health returns why the instance does not do its work, nil if it does. It needs
// no token; without one the answer has no reason.
func (c *Client) Health(ctx context.Context) error {
	_, err := get[apispec.HealthResponse](ctx, c, "v1/health", nil)
	return err
}

// keptOverviews are the latest overviews by their query, with the tags that the server
// gave them.
type keptOverviews struct {
	mu  sync.Mutex
	all map[string]keptOverview
}

type keptOverview struct {
	tag string
	apispec.Overview
}

// maxKept is how many overviews are kept. Far fewer are read again and again.
const maxKept = 8

// Overview returns what the instance and the selected tasks are doing, which callers do
// not change: if it is the same as before, the server does not send it again.
func (c *Client) Overview(ctx context.Context, selected selection.Selection) (apispec.Overview, error) {
	return c.RecentOverview(ctx, selected, 0)
}

// RecentOverview is Overview for a caller to whom the server may answer with what it read
// at most so long ago, in whole seconds.
func (c *Client) RecentOverview(ctx context.Context, selected selection.Selection, age time.Duration) (apispec.Overview, error) {
	query, with := selected.Query(), http.Header{}
	kept := c.overviews.get(query.Encode())
	if kept.tag != "" {
		with.Set("If-None-Match", kept.tag)
	}
	if age >= time.Second {
		with.Set("Cache-Control", fmt.Sprintf("max-age=%d", age/time.Second))
	}
	var now apispec.Overview
	header, err := c.callWith(ctx, with, http.MethodGet, "v1/overview", query, nil, &now)
	if errors.Is(err, errSame) {
		return kept.Overview, nil
	}
	if err == nil && now.Counts == nil { // an older version has sent all tasks
		err = selected.Apply(&now)
	}
	if tag := header.Get("ETag"); err == nil && tag != "" {
		c.overviews.put(query.Encode(), keptOverview{tag, now})
	}
	return now, err
}

func (k *keptOverviews) get(query string) keptOverview {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[query]
}

func (k *keptOverviews) put(query string, o keptOverview) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]keptOverview{}
	}
	for other := range k.all {
		if len(k.all) >= maxKept && other != query {
			delete(k.all, other)
		}
	}
	k.all[query] = o
}

// sameRead is how old further parts of an overview may be: they are of the same read as the first one.
const sameRead = 5 * time.Second

// Overviews reads the selected tasks in parts, so that no answer is long. Each part also
// has what concerns all tasks, such as the counts. The last part has the cursor behind it if the selection has a
// limit that leaves out tasks.
func (c *Client) Overviews(ctx context.Context, selected selection.Selection) iter.Seq2[apispec.Overview, error] {
	return func(yield func(apispec.Overview, error) bool) {
		left, age := math.MaxInt, time.Duration(0)
		if selected.Limit != nil {
			left = *selected.Limit
		}
		for {
			o, err := c.RecentOverview(ctx, selected.First(min(left, selection.MaxLimit)), age)
			left, age = left-len(o.Tasks), sameRead
			if !yield(o, err) || err != nil || o.Next == nil || left <= 0 {
				return
			}
			selected.After = *o.Next
		}
	}
}

// MaxRuns is how many runs one answer has at most.
const MaxRuns = 200

// allRuns asks for as many runs as one answer has.
var allRuns = strconv.Itoa(MaxRuns)

// Runs returns the runs of a task, of every kind, the latest first.
func (c *Client) Runs(ctx context.Context, task string) ([]apispec.Run, error) {
	answer, err := get[apispec.RunsResponse](ctx, c, taskPath(task)+"/runs", url.Values{"limit": {allRuns}})
	return answer.Runs, err
}

// LatestRuns returns the latest runs of all tasks, at most so many.
func (c *Client) LatestRuns(ctx context.Context, most int) ([]apispec.Run, error) {
	answer, err := get[apispec.RunsResponse](ctx, c, "v1/runs", url.Values{"limit": {strconv.Itoa(most)}})
	return answer.Runs, err
}

// Run returns one run.
func (c *Client) Run(ctx context.Context, task, id string) (apispec.Run, error) {
	answer, err := get[apispec.RunResponse](ctx, c, runPath(task, id), nil)
	return answer.Run, err
}

// Events returns events, as the query of the request says, the latest first.
func (c *Client) Events(ctx context.Context, query url.Values) (apispec.EventsResponse, error) {
	return get[apispec.EventsResponse](ctx, c, "v1/events", query)
}

// Order returns which tasks come after which.
func (c *Client) Order(ctx context.Context) (apispec.OrderResponse, error) {
	return get[apispec.OrderResponse](ctx, c, "v1/order", nil)
}

// Map returns what in Consul feeds the selected tasks, and which resources they have.
func (c *Client) Map(ctx context.Context, selected selection.Map) (apispec.MapResponse, error) {
	return get[apispec.MapResponse](ctx, c, "v1/map", selected.Query())
}

// Version returns which program answers.
func (c *Client) Version(ctx context.Context) (apispec.VersionResponse, error) {
	return get[apispec.VersionResponse](ctx, c, "v1/version", nil)
}

// Login returns where people sign in on the command line.
func (c *Client) Login(ctx context.Context) (apispec.LoginConfigurationResponse, error) {
	return get[apispec.LoginConfigurationResponse](ctx, c, "v1/login/configuration", nil)
}

// Cluster returns the instances of a cluster. An instance that is alone refuses it.
func (c *Client) Cluster(ctx context.Context) (apispec.ClusterStatus, error) {
	return get[apispec.ClusterStatus](ctx, c, "v1/status/cluster", nil)
}

// Output returns a chunk of what Terraform printed in a run.
func (c *Client) Output(ctx context.Context, task, run string, offset int) (apispec.RunOutputResponse, error) {
	return get[apispec.RunOutputResponse](ctx, c, runPath(task, run)+"/output", url.Values{"offset": {strconv.Itoa(offset)}})
}

// Find returns the runs whose ids begin with a prefix. It looks among the latest
// runs first.
func (c *Client) Find(ctx context.Context, prefix string) ([]apispec.Run, error) {
	other := func(run apispec.Run) bool { return !strings.HasPrefix(run.ID, prefix) }
	latest, err := c.LatestRuns(ctx, MaxRuns)
	if found := slices.DeleteFunc(latest, other); err != nil || len(found) > 0 {
		return found, err
	}
	var found []apispec.Run
	for part, err := range c.Overviews(ctx, selection.Selection{Brief: true}) {
		if err != nil {
			return nil, err
		}
		for i := range part.Tasks {
			runs, err := c.Runs(ctx, part.Tasks[i].Name)
			if err != nil {
				return nil, err
			}
			found = append(found, slices.DeleteFunc(runs, other)...)
		}
	}
	return found, nil
}
