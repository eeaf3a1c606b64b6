package consul

import (
	"fmt"

	"github.com/hashicorp/consul/api"
)

// API returns a client of consul/api that connects as c does, for other requests
// than those of this package.
func (c *Client) API() (*api.Client, error) {
	resolved := c.resolved
	client, err := api.NewClient(&resolved)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to Consul at %s: %w", c.address, err)
	}
	return client, nil
}
