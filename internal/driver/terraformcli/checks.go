package terraformcli

import (
	"context"

	"github.com/terrapulse/terrapulse/internal/driver/checkblock"
)

// Checks is what the check blocks of a module have found.
type Checks = checkblock.Results

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
	found, err := checkblock.OfState(raw)
	found.Clean(d.scrub.Clean)
	return found, err
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
		*d.checked = checkblock.OfPlan(data)
		d.checked.Clean(d.scrub.Clean)
	}
}
