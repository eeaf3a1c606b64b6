package consul

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Clock returns how far the clock of the agent that answers is ahead of this machine's, and by how
// much that may be wrong: answers have whole seconds.
func (c *Client) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	r := request{Request: condition.Request{Act: "read the time", Path: "/v1/status/leader"}}
	req, err := c.httpRequest(ctx, r)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	resp, err := c.resolved.HttpClient.Do(req)
	if err != nil {
		return 0, 0, c.transportError(ctx, r, err)
	}
	took := time.Since(began)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // the header says all
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the time from Consul at %s: %w", c.address, err)
	}
	return date.Add(500 * time.Millisecond).Sub(began.Add(took / 2)), 500*time.Millisecond + took/2, nil
}
