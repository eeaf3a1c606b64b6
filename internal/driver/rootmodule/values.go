package rootmodule

import (
	"fmt"
	"io"

	"github.com/terrapulse/terrapulse/internal/base/tfvars"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// renderValues writes terraform.tfvars.
func (m Module) renderValues(w io.Writer) error {
	out := tfvars.NewWriter(w)
	out.Write(m.preamble())
	written := map[*condition.Variable]bool{}
	for _, block := range m.Blocks {
		v := condition.VariableNamed(block.Variable)
		if v == nil {
			return fmt.Errorf("write %s: no variable %q is known", ValuesFile, block.Variable)
		}
		written[v] = true
		m.writeVariable(out, v, block.Entries)
	}
	for _, k := range condition.Kinds {
		if k.Variable != nil && k.Variable.Always && !written[k.Variable] {
			m.writeVariable(out, k.Variable, nil)
		}
	}
	if getsChanges(m.Task, m.Types) {
		m.writeChanges(out)
	}
	return out.Flush()
}

func (m Module) writeVariable(w *tfvars.Writer, v *condition.Variable, entries condition.Entries) {
	w.Begin(v.Name, m.grouped(v))
	if entries != nil {
		entries.Write(w, m.attributes(v))
	}
	w.End()
}
