package terraformcli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Checks is what the check blocks of a module have found.
type Checks struct {
	Failing []string // the blocks that have failed, with their messages
	Unknown []string // the addresses of those that were not evaluated
}

// kindCheck is the kind of a check block, in a state and in a plan. The others are conditions of
// resources, outputs and variables, which end a run with an error.
const kindCheck = "check"

// warns reports whether a line of Terraform's text begins a warning.
func warns(line string) bool {
	line = strings.TrimLeft(line, "│ ")
	return strings.HasPrefix(line, "Warning: ") || line == "Warnings:" // with -compact-warnings
}

// Checks returns what the check blocks have found in the apply that has ended. Terraform warns of a block
// that fails. So without a warning, none has failed, and the state is read only if required.
func (d *Dir) Checks(ctx context.Context, required bool) (Checks, error) {
	if d.checked != nil {
		return *d.checked, d.checkErr
	}
	if !d.warned && !required {
		return Checks{}, nil
	}
	raw, err := d.current(ctx)
	if err != nil {
		return Checks{}, err
	}
	found, err := checksOf(raw)
	found.clean(d.scrub.Clean)
	return found, err
}

// checksOf reads the results of check blocks in a state.
func checksOf(raw []byte) (found Checks, err error) {
	if len(raw) == 0 {
		return found, nil
	}
	var s struct {
		Results []struct {
			Kind    string `json:"object_kind"`
			Address string `json:"config_addr"`
			Status  string
			Objects []struct {
				Messages []string `json:"failure_messages"`
			}
		} `json:"check_results"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return found, fmt.Errorf("read the check results in a state of Terraform: %w", err)
	}
	for _, r := range s.Results {
		if r.Kind == kindCheck {
			var messages []string
			for _, o := range r.Objects {
				messages = append(messages, o.Messages...)
			}
			found.add(r.Address, r.Status, messages)
		}
	}
	return found, nil
}

// checksIn reads the results of check blocks in a plan.
func checksIn(plan *tfjson.Plan) (found Checks) {
	for _, r := range plan.Checks {
		if r.Address.Kind == kindCheck {
			var messages []string
			for _, i := range r.Instances {
				for _, p := range i.Problems {
					messages = append(messages, p.Message)
				}
			}
			found.add(r.Address.ToDisplay, string(r.Status), messages)
		}
	}
	return found
}

func (c *Checks) add(address, status string, messages []string) {
	switch status {
	case "pass":
	case "unknown":
		c.Unknown = append(c.Unknown, address)
	default:
		if len(messages) == 0 {
			messages = []string{"its condition has status " + status}
		}
		c.Failing = append(c.Failing, address+": "+strings.Join(messages, ", "))
	}
}

func (c *Checks) clean(clean func(string) string) {
	for i := range c.Failing {
		c.Failing[i] = strings.Join(strings.Fields(clean(c.Failing[i])), " ")
	}
	slices.Sort(c.Failing)
	slices.Sort(c.Unknown)
}

// notePlanned notes what the check blocks have found in a plan without changes, which is not applied.
func (d *Dir) notePlanned(ctx context.Context, plan Plan) {
	d.checked = &Checks{}
	if !d.warned && !d.opts.ChecksRequired {
		return
	}
	data := plan.JSON
	if data == nil && plan.Show != nil {
		data, d.checkErr = plan.Show(ctx)
	}
	if data != nil {
		*d.checked = checksIn(data)
		d.checked.clean(d.scrub.Clean)
	}
}
