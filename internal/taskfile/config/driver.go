package config

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

// DriverKinds are the drivers that a driver block can name beside "terraform", which is the default.
var DriverKinds = []*DriverKind{cloudKind}

// DriverKind is a kind of driver, and what the program depends on of it.
type DriverKind struct {
	// Name is the name in task files, as in driver "NAME" {}.
	Name string
	// Doc says what the driver does.
	Doc string
	// Keys returns the keys of a new block of the driver.
	Keys func() DriverKeys
	// Templates are the full paths of the keys whose value may be a template.
	Templates []string

	// Remote says that runs go on in another system, which keeps the states. Steps of such a run
	// only send requests, so that it needs no container.
	Remote bool
	// PlansAlways says that each run has a plan, so that each plan is judged.
	PlansAlways bool
	// Secret is where a secret belongs that is in the block.
	Secret string
}

// DriverKeys are the keys of a block of a driver: a pointer to a struct with the values of package
// block.
type DriverKeys interface {
	// Place is where the block is; it has Set if a file has the block.
	Place() *block.Origin
	// Driver checks the keys and reports everything that is wrong. cfg has what the files say, except
	// for drivers and tasks.
	Driver(l *Loader, cfg *Config) Driver
}

// Loader reads a configuration, and takes reports of what is wrong.
type Loader = loader

// Driver is a driver block: checked, and with defaults.
type Driver interface {
	Kind() *DriverKind
	// Required returns the sources and versions of providers that the block names, by provider name.
	Required() map[string]cty.Value
	// Texts are the values that may be templates, with the paths of their keys.
	Texts() []notify.Text
	// Meaning is what decides where and how runs of a task are carried out. Definition digests are
	// made from it: it must leave out what is not set, and secrets.
	Meaning(c *Config, t *Task) map[string]any
	// StateOf says where the state of a task is.
	StateOf(t *Task) string
	// Verbose reports whether what the driver prints is also logged.
	Verbose() bool
	// AppliesPlans reports whether a plan can be applied as it was made.
	AppliesPlans() bool
	// NotInAWS finds what works on one machine but not in AWS.
	NotInAWS(literals []Literal) []Diagnostic
}

// Driver returns the block of the driver that carries out the runs.
func (c *Config) Driver() Driver {
	if c.OtherDriver != nil {
		return c.OtherDriver
	}
	return &c.Terraform
}

// RequiredProviders returns the sources and versions of providers that the driver
// names, by provider name.
func (c *Config) RequiredProviders() map[string]cty.Value { return c.Driver().Required() }

// driverBlocks has a block for each of DriverKinds.
type driverBlocks struct{ kindKeys }

func (driverBlocks) kinds() (all []key) {
	for _, k := range DriverKinds {
		all = append(all, kindKey(k.Name, k.Doc, k.Keys))
	}
	return all
}

// otherDriver returns the block of a driver other than "terraform"; nil if no file has one.
func (l *loader) otherDriver(raw *rawDriver, cfg *Config) (other Driver) {
	first, at := terraformKind, raw.Terraform.Origin
	for _, k := range DriverKinds {
		keys, ok := raw.kindKeys[k.Name].(DriverKeys)
		if !ok || !keys.Place().Set {
			continue
		}
		if at.Set {
			l.Fail(*keys.Place(), fmt.Sprintf("only one driver can be configured, and driver %q is already (%s)", first.Name, at.Pos), "remove one of them")
		}
		first, at, other = k, *keys.Place(), keys.Driver(l, cfg)
	}
	return other
}

var terraformKind = &DriverKind{
	Name:   "terraform",
	Secret: "remove it: give the runner's role the rights that the backend needs (the stack's parameter RunnerPolicyArns), or use an environment variable",
}

// Kind implements Driver.
func (*Terraform) Kind() *DriverKind { return terraformKind }

// Required implements Driver.
func (d *Terraform) Required() map[string]cty.Value { return d.RequiredProviders }

// Texts implements Driver.
func (*Terraform) Texts() []notify.Text { return nil }

// Meaning implements Driver.
func (d *Terraform) Meaning(c *Config, _ *Task) map[string]any {
	m := meaning{}
	m.set("terraform", d.Version)
	if d.Engine != EngineTerraform { // the default is left out
		m.set("engine", d.Engine)
	}
	m.set("backend", c.backendMeaning())
	return m
}

// StateOf implements Driver.
func (d *Terraform) StateOf(t *Task) string {
	if d.Backend.Type == "local" {
		return "below " + t.WorkingDir
	}
	return fmt.Sprintf("in the workspace %s of the backend %q", t.Name, d.Backend.Type)
}

// Verbose implements Driver.
func (d *Terraform) Verbose() bool { return d.Log }

// AppliesPlans implements Driver.
func (d *Terraform) AppliesPlans() bool { return !d.Backend.PlansRemotely() }

// NotInAWS implements Driver.
func (d *Terraform) NotInAWS([]Literal) []Diagnostic {
	if d.Backend.Type != "local" {
		return nil
	}
	return []Diagnostic{{Key: "driver.terraform.backend.local", Problem: "the state would be on the disk of a container, and lost with it",
		Hint: "keep it in S3 (backend s3) or in Consul (the default)"}}
}
