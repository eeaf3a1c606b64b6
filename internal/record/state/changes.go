package state

import "fmt"

// Changes counts what an apply did, or a plan would do.
type Changes struct {
	Add       int        `json:"add"`
	Change    int        `json:"change"`
	Destroy   int        `json:"destroy"`
	Uncounted bool       `json:"uncounted,omitempty"` // a plan without the three above changes outputs, or imports, moves or forgets resources
	Unknown   bool       `json:"unknown,omitempty"`   // it is not known how many there are: what is counted is only a part
	Resources []Resource `json:"resources,omitempty"` // the first of them
}

// Any reports whether a plan has something to apply. Terraform and CTS count
// changes of outputs, imports, moves and forgotten resources as such. A plan whose
// numbers are not known may have something.
func (c *Changes) Any() bool {
	return c != nil && (c.Add+c.Change+c.Destroy > 0 || c.Uncounted || c.Unknown)
}

// Counts returns the numbers alone; nil if c is nil.
func (c *Changes) Counts() *Changes {
	if c == nil {
		return nil
	}
	return &Changes{Add: c.Add, Change: c.Change, Destroy: c.Destroy, Unknown: c.Unknown}
}

// Include adds the counts of other, which may be nil.
func (c *Changes) Include(other *Changes) {
	if other != nil {
		c.Add, c.Change, c.Destroy = c.Add+other.Add, c.Change+other.Change, c.Destroy+other.Destroy
		c.Unknown = c.Unknown || other.Unknown
	}
}

// Name adds a resource, unless KeptResources are named already.
func (c *Changes) Name(address, action string) {
	if len(c.Resources) < KeptResources {
		c.Resources = append(c.Resources, Resource{Address: Cut(address), Action: action})
	}
}

func (c *Changes) String() string {
	switch {
	case c == nil:
		return ""
	case c.Unknown:
		return "it is not known how many resources were changed"
	}
	return fmt.Sprintf("%d added, %d changed, %d destroyed", c.Add, c.Change, c.Destroy)
}

// ToDo says in words what a plan would do.
func (c *Changes) ToDo() string {
	switch {
	case c == nil:
		return ""
	case c.Unknown:
		return "it is not known how many resources would be changed"
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", c.Add, c.Change, c.Destroy)
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
