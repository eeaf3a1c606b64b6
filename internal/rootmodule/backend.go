package rootmodule

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/config"
)

// taskMark stands for the task's name in the arguments of a backend that has no
// workspaces to keep the states of several tasks apart.
const taskMark = "{task}"

// writeBackend writes the block that says where the task's state is. A cloud
// block is one of its own; every other is a backend block.
func (m Module) writeBackend(b *bytes.Buffer) error {
	backend, err := Backend(m.Config, m.Task)
	if err != nil || backend.Type == "" {
		return err
	}
	where := "backend " + strconv.Quote(backend.Type)
	if backend.Type == "cloud" {
		where = "cloud"
	}
	fmt.Fprintf(b, "%s {\n", where)
	if err := writeBody(b, where, backend.Body, nil); err != nil {
		return err
	}
	b.WriteString("}\n")
	return nil
}

// Backend returns where the state of a task is. Each task has a state of its
// own: in the workspace that is named like it, or, where a backend has none
// (http and cloud, and remote with the name of a workspace), at what "{task}" in
// the backend's arguments makes of its name. The error says that several tasks
// would share one state.
func Backend(c *config.Config, t *config.Task) (config.Backend, error) {
	backend := c.Terraform.Backend
	var key string // the argument that tells the states apart
	var marked bool
	switch backend.Type {
	case "http":
		key = "address"
		marked = mentions(backend.Body.Attributes["address"])
	case "remote", "cloud":
		backend.Body = asBlock(backend.Body, "workspaces")
		for _, workspaces := range backend.Body.Blocks["workspaces"] {
			if name, ok := workspaces.Attributes["name"]; ok && !name.IsNull() {
				key, marked = "workspaces.name", mentions(name)
			}
		}
	default:
		return backend, nil
	}
	if backend.Type == "cloud" && key == "" {
		return config.Backend{}, fmt.Errorf("the block cloud names no workspace: write workspaces { name = %q }, as without a name, which tags do not give, Terraform asks a person for the first workspace",
			taskMark)
	}
	if key != "" && !marked && len(c.Tasks) > 1 {
		return config.Backend{}, fmt.Errorf("the %d tasks would share one state, as the backend %q has no workspaces of its own for them: put %s, which stands for a task's name, into its %s",
			len(c.Tasks), backend.Type, taskMark, key)
	}
	backend.Body = backend.Body.Map(func(_, text string) string { return strings.ReplaceAll(text, taskMark, t.Name) })
	return backend, nil
}

func mentions(v cty.Value) bool {
	return v != cty.NilVal && !v.IsNull() && v.Type() == cty.String && strings.Contains(v.AsString(), taskMark)
}

// asBlock makes an argument that was written as an object, which is all that
// YAML and JSON have, the block that Terraform wants.
func asBlock(body config.Body, name string) config.Body {
	v, ok := body.Attributes[name]
	if !ok || v.IsNull() || !v.Type().IsObjectType() {
		return body
	}
	attributes, blocks := maps.Clone(body.Attributes), maps.Clone(body.Blocks)
	delete(attributes, name)
	if blocks == nil {
		blocks = map[string][]config.Body{}
	}
	blocks[name] = append(blocks[name], config.Body{Attributes: v.AsValueMap()})
	return config.Body{Attributes: attributes, Blocks: blocks}
}
