package rootmodule

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// taskMark is replaced by the task's name in the arguments of backends without
// workspaces.
const taskMark = "{task}"

// writeBackend writes the backend block or the cloud block.
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

// Backend returns where the state of a task is: in the workspace with its name or, in
// backends without workspaces (http, cloud, and remote with a named workspace), where
// the backend's arguments contain "{task}". It returns an error if several tasks would
// share one state.
func Backend(c *config.Config, t *config.Task) (config.Backend, error) {
	backend := c.Terraform.Backend
	var key string // the argument that must differ between tasks
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
		return config.Backend{}, fmt.Errorf("the block cloud names no workspace: write workspaces { name = %q } (with tags alone, Terraform would ask for the name of the first workspace)",
			taskMark)
	}
	if key != "" && !marked && len(c.Tasks) > 1 {
		return config.Backend{}, fmt.Errorf("the %d tasks would share one state, as the backend %q has no workspaces of its own for them: put %s, which is replaced by the task's name, into its %s",
			len(c.Tasks), backend.Type, taskMark, key)
	}
	backend.Body = backend.Body.Map(func(_, text string) string { return strings.ReplaceAll(text, taskMark, t.Name) })
	return backend, nil
}

func mentions(v cty.Value) bool {
	return v != cty.NilVal && !v.IsNull() && v.Type() == cty.String && strings.Contains(v.AsString(), taskMark)
}

// asBlock makes an argument that is an object, as in YAML and JSON, the block that
// Terraform requires.
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
