package terraformcli

import (
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// inventory finds out, from lines without secrets, which managed resources a state has, from what Terraform prints while it plans
// and applies: that costs no other start of Terraform. No decision depends on it.
type inventory struct {
	has     map[string]bool
	created map[string]bool
}

// The words of Terraform after the address of a resource. Data sources have others.
const (
	wordRefreshed = ": Refreshing state..."
	wordCreated   = ": Creation complete after "
	wordImported  = ": Import complete"
	wordDestroyed = ": Destruction complete after "
	wordForgotten = " will no longer be managed by Terraform"
)

func newInventory() *inventory { return &inventory{map[string]bool{}, map[string]bool{}} }

// line reads a line of a plan or an apply.
func (i *inventory) line(line string) {
	for _, word := range [...]string{wordRefreshed, wordCreated, wordImported, wordDestroyed, wordForgotten} {
		address, _, found := strings.Cut(line, word)
		if !found || strings.Contains(address, " (deposed object ") {
			continue
		}
		address = strings.TrimPrefix(address, "  # ")
		if state.ResourceType(address) == "data" { // older versions refresh data sources with the same words
			return
		}
		switch word {
		case wordRefreshed:
			i.has[address] = true
		case wordCreated, wordImported:
			i.has[address], i.created[address] = true, true
		case wordForgotten:
			i.forget(address)
		case wordDestroyed:
			if !i.created[address] { // else this was what it replaces
				delete(i.has, address)
			}
		}
		return
	}
}

// forget takes out a resource that stays, and that Terraform does not manage any more.
func (i *inventory) forget(address string) { delete(i.has, address) }

// Made returns the addresses of all managed resources after an apply or a destroy, in any order; nil if
// they are not known.
func (d *Dir) Made() []string {
	if d.made == nil || d.opts.Backend.PlansRemotely() {
		return nil
	}
	return slices.AppendSeq(make([]string, 0, len(d.made.has)), maps.Keys(d.made.has))
}
