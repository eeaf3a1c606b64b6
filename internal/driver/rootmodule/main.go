package rootmodule

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// requiredVersion of Terraform has no upper bound: an older Terrapulse is no reason to
// refuse a newer Terraform.
const requiredVersion = ">= 0.13.0"

// main is main.tf without its preamble.
func (m Module) main() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("\nterraform {\n")
	fmt.Fprintf(&b, "required_version = %q\n", requiredVersion)
	providers := m.providers()
	if err := m.writeRequiredProviders(&b, providers); err != nil {
		return nil, err
	}
	if err := m.writeBackend(&b); err != nil {
		return nil, err
	}
	b.WriteString("}\n\n")

	for i, p := range providers {
		if i > 0 {
			b.WriteString("\n")
		}
		if err := checkName("provider", p.Name); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "provider %q {\n", p.Name)
		if err := writeBody(&b, "provider "+strconv.Quote(p.Name), p.Body, []string{"var", p.Name}); err != nil {
			return nil, err
		}
		b.WriteString("}\n")
	}
	b.WriteString("\n")

	if err := m.writeModule(&b); err != nil {
		return nil, err
	}
	return hclwrite.Format(b.Bytes()), nil
}

func (m Module) writeRequiredProviders(b *bytes.Buffer, providers []provider) error {
	open := false
	for i, p := range providers {
		req, ok := m.Config.RequiredProviders()[p.Name]
		if !ok || i > 0 && providers[i-1].Name == p.Name {
			continue
		}
		if err := checkName("required_providers", p.Name); err != nil {
			return err
		}
		if !open {
			b.WriteString("required_providers {\n")
			open = true
		}
		fmt.Fprintf(b, "%s = %s\n", p.Name, literal(req))
	}
	if open {
		b.WriteString("}\n")
	}
	return nil
}

func (m Module) writeModule(b *bytes.Buffer) error {
	t := m.Task
	if err := checkName("task", t.Name); err != nil {
		return err
	}
	if t.Module == "" {
		return nil // everything in the state is to be destroyed, and the module is gone
	}
	if t.Description != "" {
		writeComment(b, "", t.Description)
	}
	fmt.Fprintf(b, "module %q {\n", t.Name)
	fmt.Fprintf(b, "source = %s\n", literal(cty.StringVal(t.Module)))
	if t.Version != "" {
		fmt.Fprintf(b, "version = %s\n", literal(cty.StringVal(t.Version)))
	}
	for _, v := range inputs(t) {
		if m.grouped(v) {
			fmt.Fprintf(b, "%s = merge(values(var.%s)...)\n", v.Name, v.Name)
		} else {
			fmt.Fprintf(b, "%s = var.%s\n", v.Name, v.Name)
		}
	}
	if getsChanges(t, m.Types) {
		b.WriteString(changesArgument)
	}
	if names := t.VariableNames(); len(names) > 0 {
		b.WriteString("\n")
		for _, name := range names {
			if err := checkName("variables of task "+t.Name, name); err != nil {
				return err
			}
			fmt.Fprintf(b, "%s = var.%s\n", name, name)
		}
	}
	b.WriteString("}\n")
	return nil
}

// writeBody writes the arguments and nested blocks of a block, sorted by name. With ref,
// the path of the variable with the values, arguments refer to it; without, they are
// literal.
func writeBody(b *bytes.Buffer, where string, body config.Body, ref []string) error {
	names := slices.Collect(maps.Keys(body.Attributes))
	for name := range body.Blocks {
		if _, twice := body.Attributes[name]; twice {
			return fmt.Errorf("%s: %q is both an argument and a block: write it in one way", where, name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := checkName(where, name); err != nil {
			return err
		}
		if value, ok := body.Attributes[name]; ok {
			if ref == nil {
				fmt.Fprintf(b, "%s = %s\n", name, literal(value))
			} else {
				fmt.Fprintf(b, "%s = %s\n", name, strings.Join(append(slices.Clip(ref), name), "."))
			}
			continue
		}
		blocks := body.Blocks[name]
		for i, block := range blocks {
			inner := ref
			if ref != nil {
				step := name
				if len(blocks) > 1 {
					step += "[" + strconv.Itoa(i) + "]"
				}
				inner = append(slices.Clip(ref), step)
			}
			fmt.Fprintf(b, "%s {\n", name)
			if err := writeBody(b, where+", block "+name, block, inner); err != nil {
				return err
			}
			b.WriteString("}\n")
		}
	}
	return nil
}

// literal is the source text of a known value.
func literal(v cty.Value) []byte { return hclwrite.TokensForValue(v).Bytes() }
