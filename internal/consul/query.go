package consul

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Query is what one condition, or all module inputs of a scheduled task, read from
// Consul. It is canonical: the order of names and the like does not matter.
type Query struct {
	kind  string
	parts []condition.Selection
}

// ConditionQuery returns what triggers the task: its condition or, for a schedule,
// what its module inputs show when it is due. A peer of module inputs must answer,
// too. It returns false for a task without a condition.
func ConditionQuery(t *config.Task) (Query, bool) {
	if t.Condition.Spec == nil {
		return Query{}, false
	}
	q := Query{kind: t.Condition.Kind().Name, parts: t.Condition.Spec.Selections()}
	_, scheduled := t.Condition.Schedule()
	for _, input := range t.ModuleInputs {
		for _, p := range input.Selections() {
			if peer := p.Scope().Peer; scheduled {
				q.parts = append(q.parts, p)
			} else if peer != "" {
				q.parts = append(q.parts, condition.Peering{Peer: peer})
			}
		}
	}
	return q, true
}

// ID is a digest of the kind and every parameter: short, printable and the same in
// every process.
func (q Query) ID() string {
	encoded := list.Map(q.parts, condition.Selection.ID)
	slices.Sort(encoded)
	sum := sha256.Sum256([]byte(condition.Encode(encoded...)))
	return fmt.Sprintf("%s-%s", q.kind, hex.EncodeToString(sum[:16]))
}
