// Package checkblock reads what the check blocks of a module have found.
package checkblock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Results is what the check blocks of a module have found.
type Results struct {
	Failing []string // the blocks that have failed, with their messages
	Unknown []string // the addresses of those that were not evaluated
}

// kindCheck is the kind of a check block, in a state and in a plan. The others are conditions of
// resources, outputs and variables, which end a run with an error.
const kindCheck = "check"

// Warns reports whether a line of Terraform's text begins a warning. Terraform warns of a block that fails.
func Warns(line string) bool {
	line = strings.TrimLeft(line, "│ ")
	return strings.HasPrefix(line, "Warning: ") || line == "Warnings:" // with -compact-warnings
}

// OfState reads the results of check blocks in a state.
func OfState(raw []byte) (found Results, err error) {
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

// OfPlan reads the results of check blocks in a plan.
func OfPlan(plan *tfjson.Plan) (found Results) {
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

func (r *Results) add(address, status string, messages []string) {
	switch status {
	case "pass":
	case "unknown":
		r.Unknown = append(r.Unknown, address)
	default:
		if len(messages) == 0 {
			messages = []string{"its condition has status " + status}
		}
		r.Failing = append(r.Failing, address+": "+strings.Join(messages, ", "))
	}
}

// Clean hides secrets in messages, and sorts them.
func (r *Results) Clean(clean func(string) string) {
	for i := range r.Failing {
		r.Failing[i] = strings.Join(strings.Fields(clean(r.Failing[i])), " ")
	}
	slices.Sort(r.Failing)
	slices.Sort(r.Unknown)
}
