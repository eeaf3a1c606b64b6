// Package drivertest is a third driver, small and made up: its runs go on in another system, which
// has one list of runs for each task. To import the package registers the driver, as a real one is
// registered: no other package names it, except for tests. It shows that a driver needs nothing else.
package drivertest

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Name is the name of the driver in task files.
const Name = "bureau"

const tokenKey = "driver." + Name + ".token"

var kind = &config.DriverKind{Name: Name, Doc: "a bureau carries out the runs", Keys: func() config.DriverKeys { return new(keys) },
	Templates: []string{tokenKey}, Remote: true, PlansAlways: true, Secret: "remove it: use a template"}

func init() {
	config.DriverKinds = append(config.DriverKinds, kind)
	remotes.Kinds = append(remotes.Kinds, &remotes.Kind{Name: Name, System: "the Bureau", Fix: "open the bureau",
		New: func(o remotes.Options) remotes.Driver { return &Driver{Open: opener(o.Token)} }})
}

type keys struct {
	block.Origin
	Office block.String `key:"office" required:"true" doc:"the office that carries out the runs"`
	Token  block.String `key:"token" doc:"token of the office"`
}

// Driver implements config.DriverKeys.
func (k *keys) Driver(l *config.Loader, _ *config.Config) config.Driver {
	if k.Office.V == "" {
		l.Missing(k.Key("office"), "office is required", "")
	}
	return &Block{Office: k.Office.V, Token: k.Token.V}
}

// Block is the driver "bureau" block.
type Block struct{ Office, Token string }

// Kind implements config.Driver.
func (*Block) Kind() *config.DriverKind { return kind }

// Required implements config.Driver.
func (*Block) Required() map[string]cty.Value { return nil }

// Texts implements config.Driver.
func (b *Block) Texts() []notify.Text { return []notify.Text{{Key: tokenKey, Text: b.Token}} }

// Meaning implements config.Driver.
func (b *Block) Meaning(*config.Config, *config.Task) map[string]any {
	return map[string]any{"office": b.Office}
}

// StateOf implements config.Driver.
func (b *Block) StateOf(t *config.Task) string {
	return "in the file " + t.Name + " of the office " + b.Office
}

// Verbose implements config.Driver.
func (*Block) Verbose() bool { return false }

// AppliesPlans implements config.Driver.
func (*Block) AppliesPlans() bool { return true }

// NotInAWS implements config.Driver.
func (*Block) NotInAWS([]config.Literal) []config.Diagnostic { return nil }
