package guard

import (
	"cmp"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// Keys are the keys of a guard block.
type Keys struct {
	block.Origin
	Enabled           block.Bool     `key:"enabled" default:"true" doc:"'false': no guard holds a change"`
	Within            block.Duration `key:"within" default:"15m" form:"delay" example:"30m" doc:"removals within this time count together; '0s': compare only with what was applied last, and judge each plan alone"`
	MaxRemovedPercent block.Int      `key:"max_removed_percent" default:"50" form:"percent" doc:"how many percent of the entries of the condition, or of a module input, may be removed within 'within'"`
	MinEntries        block.Int      `key:"min_entries" default:"10" form:"count" doc:"'max_removed_percent' has no effect on fewer entries"`
	MaxRemoved        block.Int      `key:"max_removed" unset:"no limit" form:"count" example:"20" doc:"how many entries may be removed within 'within'"`
	OnEmpty           block.String   `key:"on_empty" default:"apply" one:"apply hold" doc:"'hold': hold a change that leaves no entries"`
	MaxDestroy        block.Int      `key:"max_destroy" unset:"no limit" form:"count" example:"5" doc:"how many resources plans may destroy or replace within 'within'"`
	MaxDestroyPercent block.Int      `key:"max_destroy_percent" unset:"no limit" form:"percent" example:"20" doc:"the same, in percent of the task's resources"`
}

// The values of on_empty.
const (
	apply = "apply"
	hold  = "hold"
)

// Spec checks the keys, and returns the limits: a key that is not set has the value
// of parent.
func (k *Keys) Spec(r *block.Report, parent Spec) Spec {
	for _, percent := range []*block.Int{&k.MaxRemovedPercent, &k.MaxDestroyPercent} {
		if percent.V < 0 || percent.V > 100 {
			r.Fail(percent.Origin, fmt.Sprintf("%s percent is out of range", block.Quoted(percent.Text)), "allowed: 0 to 100")
		}
	}
	for _, count := range []*block.Int{&k.MinEntries, &k.MaxRemoved, &k.MaxDestroy} {
		if count.V < 0 {
			r.Fail(count.Origin, fmt.Sprintf("%s is negative", block.Quoted(count.Text)), "a whole number, 0 or more")
		}
	}
	if k.Within.V < 0 {
		r.Fail(k.Within.Origin, fmt.Sprintf("%s is negative", block.Quoted(k.Within.Text)), `a duration such as "15m", or "0s" to compare only with what was applied last`)
	}
	empty := apply
	if parent.HoldEmpty {
		empty = hold
	}
	if empty = k.OnEmpty.Or(empty); empty != apply && empty != hold {
		r.Fail(k.OnEmpty.Origin, "invalid on_empty "+block.Quoted(empty), "allowed: apply, hold")
	}
	return Spec{
		Enabled:           k.Enabled.Or(parent.Enabled),
		Within:            k.Within.Or(parent.Within),
		MaxRemovedPercent: k.MaxRemovedPercent.Or(parent.MaxRemovedPercent),
		MinEntries:        k.MinEntries.Or(parent.MinEntries),
		MaxRemoved:        cmp.Or(k.MaxRemoved.Written(), parent.MaxRemoved),
		HoldEmpty:         empty == hold,
		MaxDestroy:        cmp.Or(k.MaxDestroy.Written(), parent.MaxDestroy),
		MaxDestroyPercent: cmp.Or(k.MaxDestroyPercent.Written(), parent.MaxDestroyPercent),
	}
}
