package consul

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Snapshot is everything a task renders, read at one moment: complete, and
// from a cluster with a leader.
type Snapshot struct {
	// Blocks in the order in which they are rendered: what the condition gives,
	// then the module inputs as configured. A variable that every module declares
	// (services) has an empty block at the end if nothing renders it.
	Blocks []Block

	// Condition is what triggers the task, even if it is not rendered. It is zero for
	// a task without a condition.
	Condition Observation

	// Inputs are what the condition and the module inputs consist of, in that order.
	Inputs []Input

	// Visibility is of everything that was read.
	Visibility *Visibility

	leftOut []string // names, as in Observation
}

// Input is what the condition, or a module input, consists of.
type Input struct {
	Kind     *condition.Kind
	Triggers bool // it is the condition
	Observation
}

// Block is the value of one input variable of the module.
type Block struct {
	Variable string            // the name, such as "services"
	Entries  condition.Entries // nil if there are none
}

// Observation is a digest of what a query showed: of the rendered fields only,
// and independent of the order in which Consul gives them.
type Observation struct {
	Digest string // SHA-256 in hexadecimal

	// Elements are short digests for Diff, by the name of a service instance (as
	// rendered: id.node.namespace.datacenter), of a service, or of a key.
	Elements map[string]string
	Details  map[string]string // a condition.Detail of each, encoded

	// LeftOut are names of services that are selected, but that Consul has no address for. They are
	// no elements: they neither come nor go.
	LeftOut []string
}

// Snapshot reads everything that the task renders, and what triggers it. It is
// complete or an error.
func (c *Client) Snapshot(ctx context.Context, t *config.Task) (*Snapshot, error) {
	r, of := newReading(c), partsOf(t)
	r.whole = true
	c.reuse(ctx, r, t)
	r.load(ctx, of.all)
	return r.snapshot(of)
}

// taskParts are the parts of everything that a task reads.
type taskParts struct {
	task     *config.Task
	query    Query // what triggers the task
	triggers bool
	rendered []condition.Spec
	parts    [][]condition.Selection // of rendered
	all      []condition.Selection
}

func partsOf(t *config.Task) taskParts {
	of := taskParts{task: t, rendered: rendered(t)}
	of.query, of.triggers = ConditionQuery(t)
	of.all = slices.Clone(of.query.parts)
	for _, spec := range of.rendered {
		parts := spec.Selections()
		of.parts, of.all = append(of.parts, parts), append(of.all, parts...)
	}
	return of
}

// snapshot returns what is loaded of everything that the task renders.
func (r *reading) snapshot(of taskParts) (*Snapshot, error) {
	snapshot := &Snapshot{}
	for i, spec := range of.rendered {
		for _, p := range of.parts[i] {
			var read []condition.Contents
			err := r.each(p, func(l loaded) {
				if l.contents != nil {
					read = append(read, l.contents)
				}
			})
			if err != nil {
				return nil, err
			}
			b := snapshot.block(spec.Kind().Variable)
			if b.Entries, err = p.Render(b.Entries, read); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range condition.Kinds {
		if k.Variable != nil && k.Variable.Always {
			snapshot.block(k.Variable)
		}
	}
	var err error
	snapshot.leftOut = r.leftOut(of.all)
	if snapshot.Visibility, err = r.visibility(of.all); err != nil {
		return nil, err
	}
	if of.triggers {
		if snapshot.Condition, err = r.observe(of.query.parts); err != nil {
			return nil, err
		}
	}
	for _, q := range InputQueries(of.task) {
		in := Input{q.Kind, q.Triggers, snapshot.Condition}
		if !q.Triggers {
			if in.Observation, err = r.observe(q.parts); err != nil {
				return nil, err
			}
		}
		snapshot.Inputs = append(snapshot.Inputs, in)
	}
	return snapshot, nil
}

// InputQuery is the query of one Input.
type InputQuery struct {
	Kind     *condition.Kind
	Triggers bool
	Query
}

// InputQueries returns the queries of what a task is applied with, in the order of
// Snapshot.Inputs.
func InputQueries(t *config.Task) []InputQuery {
	var all []InputQuery
	query, triggers := ConditionQuery(t)
	if triggers && t.Condition.Kind().Variable != nil { // else it is a schedule
		all = append(all, InputQuery{t.Condition.Kind(), true, query})
	}
	for _, spec := range rendered(t) {
		if !triggers || spec.Kind() != t.Condition.Kind() { // else the condition is rendered, too
			all = append(all, InputQuery{spec.Kind(), false, Query{kind: spec.Kind().Name, parts: spec.Selections()}})
		}
	}
	return all
}

// EmptySnapshot is the snapshot of a Consul that has nothing that the task reads.
func EmptySnapshot(t *config.Task) *Snapshot {
	s := &Snapshot{}
	for _, spec := range rendered(t) {
		s.block(spec.Kind().Variable)
	}
	for _, k := range condition.Kinds {
		if k.Variable != nil && k.Variable.Always {
			s.block(k.Variable)
		}
	}
	return s
}

// Digest identifies everything that the snapshot shows.
func (s *Snapshot) Digest() string { return DigestOf(s.Inputs) }

// DigestOf identifies everything that the inputs of a task show.
func DigestOf(inputs []Input) string {
	all := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(all, "%s %s\n", in.Kind.Name, in.Digest)
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Warning warns people about the values; "" if there is no reason.
func (s *Snapshot) Warning() string {
	var all []string
	if len(s.leftOut) > 0 {
		all = append(all, LeftOut(s.leftOut))
	}
	for _, b := range s.Blocks {
		if w, ok := b.Entries.(condition.Warner); ok && w.Warning() != "" {
			all = append(all, w.Warning())
		}
	}
	return strings.Join(all, "; ")
}

// maxLeftOut is how many names a text about left out services has, each with so many characters.
const maxLeftOut, maxLeftOutName = 5, 80

// LeftOut says for people that services are left out.
func LeftOut(names []string) string {
	var quoted []string
	for _, name := range names[:min(len(names), maxLeftOut)] {
		if len(name) > maxLeftOutName {
			name = strings.ToValidUTF8(name[:maxLeftOutName], "") + "…"
		}
		quoted = append(quoted, strconv.Quote(name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "Consul's HTTP API has no address for the services " + text +
		", which are left out: their names are too long, or have an empty, . or .. part between slashes; find out who has registered them"
}

// Preview is Snapshot without knowledge of what was applied before. It is an error
// if access control may hide everything of a view.
func (c *Client) Preview(ctx context.Context, t *config.Task) (*Snapshot, error) {
	snap, err := c.Snapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	return snap, snap.Visibility.Confirm(ctx, nil)
}

// rendered returns what the module is given, in the order of the blocks. The
// deprecated services list, which is in the condition or the only services input,
// comes first.
func rendered(t *config.Task) []condition.Spec {
	var specs []condition.Spec
	if t.Condition.UseAsModuleInput && t.Condition.Spec != nil {
		specs = append(specs, t.Condition.Spec)
	}
	for _, input := range t.ModuleInputs {
		if len(t.DeprecatedServices) > 0 && input.Kind() == condition.ServicesKind {
			specs = append([]condition.Spec{input}, specs...)
		} else {
			specs = append(specs, input)
		}
	}
	return specs
}

// block returns the block of the variable, and makes it if necessary: a variable is
// rendered once, whatever contributes to it.
func (s *Snapshot) block(v *condition.Variable) *Block {
	for i := range s.Blocks {
		if s.Blocks[i].Variable == v.Name {
			return &s.Blocks[i]
		}
	}
	s.Blocks = append(s.Blocks, Block{Variable: v.Name})
	return &s.Blocks[len(s.Blocks)-1]
}
