package state

import "fmt"

// Changes counts what an apply did, or a plan would do.
type Changes struct {
	Add       int        `json:"add"`
	Change    int        `json:"change"`
	Destroy   int        `json:"destroy"`
	Uncounted bool       `json:"uncounted,omitempty"` // a plan without the three above changes outputs, or imports, moves or forgets resources
	Resources []Resource `json:"resources,omitempty"` // the first of them
}

// Any reports whether a plan has something to apply. Terraform and CTS count
// changes of outputs, imports, moves and forgotten resources as such.
func (c *Changes) Any() bool {
	return c != nil && (c.Add+c.Change+c.Destroy > 0 || c.Uncounted)
}

// Include adds the counts of other, which may be nil.
func (c *Changes) Include(other *Changes) {
	if other != nil {
		c.Add, c.Change, c.Destroy = c.Add+other.Add, c.Change+other.Change, c.Destroy+other.Destroy
	}
}

// Name adds a resource, unless KeptResources are named already.
func (c *Changes) Name(address, action string) {
	if len(c.Resources) < KeptResources {
		c.Resources = append(c.Resources, Resource{Address: Cut(address), Action: action})
	}
}

func (c *Changes) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%d added, %d changed, %d destroyed", c.Add, c.Change, c.Destroy)
}

// Resource is what is done to one resource.
type Resource struct {
	Address string `json:"address"`
	Action  string `json:"action"`
}

// Move is what a run of a renamed task takes along.
type Move struct {
	From     []string `json:"from"`               // the former names under which its state may be, the latest first
	Expected bool     `json:"expected,omitempty"` // the task was applied, so that there must be a state
}
