package rootmodule

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"golang.org/x/text/unicode/norm"

	"github.com/terrapulse/terrapulse/internal/consul"
)

// renderValues writes terraform.tfvars. It streams: tens of thousands of
// services take no more memory than one.
func (m Module) renderValues(w io.Writer) error {
	e := valueWriter{Writer: bufio.NewWriterSize(w, 64<<10)}
	e.Write(m.preamble())
	services := false
	for _, block := range m.Blocks {
		switch block.Variable {
		case ServicesVariable:
			services = true
			e.wanted, e.ports = m.wanted(block.Variable), m.WantsPorts()
			e.services(block.Services)
		case CatalogVariable:
			e.catalog(block.Catalog)
		case KVVariable:
			e.kv(block.KV)
		default:
			return fmt.Errorf("write %s: no variable %q is known", ValuesFile, block.Variable)
		}
	}
	if !services {
		e.services(nil)
	}
	return e.Flush()
}

// valueWriter writes values as hclwrite would format them. bufio remembers the
// first error, so only Flush is looked at.
type valueWriter struct {
	*bufio.Writer
	scratch []byte
	keys    []string
	wanted  map[string]bool // attributes of services to write; all of them if nil
	ports   bool            // services have the attribute ports
}

func (w *valueWriter) services(services []consul.Service) {
	w.WriteString("\nservices = {\n")
	groups := len(services) >= groupedFrom
	for i := range services {
		if groups {
			w.group(i)
		}
		s := &services[i]
		w.WriteString("  ")
		w.quoted(serviceKey(s))
		w.WriteString(" = {\n")
		w.service(s)
		w.WriteString("  },\n")
	}
	if groups {
		w.WriteString("},\n")
	}
	w.WriteString("}\n")
}

// group begins the next group of a grouped input where its i-th entry does, and
// ends the one before.
func (w *valueWriter) group(i int) {
	if i%groupSize != 0 {
		return
	}
	if i > 0 {
		w.WriteString("},\n")
	}
	fmt.Fprintf(w, "\"%06d\" = {\n", i/groupSize)
}

// serviceKey names an instance: id, node, namespace and datacenter, those that
// are there.
func serviceKey(s *consul.Service) string {
	key := s.ID
	for _, part := range [...]string{s.Node, s.Namespace, s.NodeDatacenter} {
		switch {
		case part == "":
		case key == "":
			key = part
		default:
			key += "." + part
		}
	}
	return key
}

// field is one attribute of a service: a map or text that is ready to be written.
type field struct {
	name   string
	text   string
	number bool
	list   []string
	table  map[string]string
	kind   fieldKind
}

type fieldKind int8

const (
	textField fieldKind = iota
	listField
	tableField
)

// service writes the attributes of an instance. The equals signs of
// neighbouring lines are aligned; a map that is not empty takes several lines
// and ends the neighbourhood.
func (w *valueWriter) service(s *consul.Service) {
	all := [...]field{
		{name: "id", text: s.ID},
		{name: "name", text: s.Name},
		{name: "kind", text: s.Kind},
		{name: "address", text: s.Address},
		{name: "port", text: strconv.Itoa(s.Port), number: true},
		{name: "ports", kind: tableField, table: w.numbers(s.Ports), number: true},
		{name: "meta", kind: tableField, table: s.Meta},
		{name: "tags", kind: listField, list: s.Tags},
		{name: "namespace", text: s.Namespace},
		{name: "status", text: s.Status},
		{name: "node", text: s.Node},
		{name: "node_id", text: s.NodeID},
		{name: "node_address", text: s.NodeAddress},
		{name: "node_datacenter", text: s.NodeDatacenter},
		{name: "node_tagged_addresses", kind: tableField, table: s.NodeTaggedAddresses},
		{name: "node_meta", kind: tableField, table: s.NodeMeta},
		{name: "cts_user_defined_meta", kind: tableField, table: s.CTSUserDefinedMeta},
	}
	fields := all[:]
	if !w.ports {
		fields = slices.Delete(fields, portsField, portsField+1)
	}
	if w.wanted != nil {
		fields = slices.DeleteFunc(fields, func(f field) bool { return !w.wanted[f.name] })
	}
	for i := 0; i < len(fields); {
		if f := &fields[i]; len(f.table) > 0 {
			w.WriteString("    ")
			w.WriteString(f.name)
			w.WriteString(" = {\n")
			w.table(f.table, f.number)
			w.WriteString("    }\n")
			i++
			continue
		}
		end, width := i, 0
		for ; end < len(fields) && len(fields[end].table) == 0; end++ {
			width = max(width, len(fields[end].name))
		}
		for ; i < end; i++ {
			f := &fields[i]
			w.WriteString("    ")
			w.WriteString(f.name)
			w.spaces(width - len(f.name))
			w.WriteString(" = ")
			switch {
			case f.kind == tableField:
				w.WriteString("{}")
			case f.kind == listField:
				w.list(f.list)
			case f.number:
				w.WriteString(f.text)
			default:
				w.quoted(f.text)
			}
			w.WriteByte('\n')
		}
	}
}

// portsField is the place of ports among the attributes of a service.
const portsField = 5

// numbers is a table of numbers as they are written.
func (w *valueWriter) numbers(numbers map[string]int) map[string]string {
	if !w.ports || len(numbers) == 0 {
		return nil
	}
	table := make(map[string]string, len(numbers))
	for name, n := range numbers {
		table[name] = strconv.Itoa(n)
	}
	return table
}

// table writes the entries of a map, sorted and aligned.
func (w *valueWriter) table(table map[string]string, numbers bool) {
	w.keys = w.keys[:0]
	width := 0
	for key := range table {
		w.keys = append(w.keys, key)
		width = max(width, w.keyColumns(key))
	}
	slices.Sort(w.keys)
	for _, key := range w.keys {
		w.WriteString("      ")
		w.Write(w.key(key))
		w.spaces(width - w.keyColumns(key))
		w.WriteString(" = ")
		if numbers {
			w.WriteString(table[key])
		} else {
			w.quoted(table[key])
		}
		w.WriteByte('\n')
	}
}

// key is a map's key as it is written, in the scratch space: bare where HCL
// allows that.
func (w *valueWriter) key(key string) []byte {
	if identifier(key) {
		w.scratch = append(w.scratch[:0], norm.NFC.String(key)...)
	} else {
		w.scratch = append(appendEscaped(append(w.scratch[:0], '"'), key), '"')
	}
	return w.scratch
}

// keyColumns is the width of a key as written, in characters as a person sees
// them.
func (w *valueWriter) keyColumns(key string) int {
	written, quotes := w.key(key), 0
	if written[0] == '"' {
		written, quotes = written[1:len(written)-1], 2
	}
	if slices.ContainsFunc(written, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return hclwrite.Tokens{{Bytes: written}}.Columns() + quotes
	}
	return len(written) + quotes
}

// identifier is hclsyntax.ValidIdentifier, which scans and allocates, with a
// short way for the usual keys.
func identifier(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9', c == '-':
			if i == 0 {
				return false
			}
		case c >= utf8.RuneSelf:
			// A byte order mark passes there, as it is skipped in front of a file.
			return !strings.Contains(s, "\uFEFF") && hclsyntax.ValidIdentifier(norm.NFC.String(s))
		default:
			return false
		}
	}
	return s != ""
}

func (w *valueWriter) catalog(services []consul.CatalogService) {
	w.WriteString("\ncatalog_services = {\n")
	groups := len(services) >= groupedFrom
	for i, s := range services {
		if groups {
			w.group(i)
		}
		w.WriteString("  ")
		w.quoted(s.Name)
		w.WriteString(" = ")
		w.list(s.Tags)
		w.WriteByte('\n')
	}
	if groups {
		w.WriteString("},\n")
	}
	w.WriteString("}\n")
}

func (w *valueWriter) kv(pairs []consul.KVPair) {
	w.WriteString("\nconsul_kv = {\n")
	for _, p := range pairs {
		w.WriteString("  ")
		w.quoted(p.Key)
		w.WriteString(" = ")
		w.quoted(p.Value)
		w.WriteByte('\n')
	}
	w.WriteString("}\n")
}

func (w *valueWriter) list(items []string) {
	w.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.WriteString(", ")
		}
		w.quoted(item)
	}
	w.WriteByte(']')
}

func (w *valueWriter) quoted(s string) {
	w.scratch = append(appendEscaped(append(w.scratch[:0], '"'), s), '"')
	w.Write(w.scratch)
}

const blanks = "                                "

func (w *valueWriter) spaces(n int) {
	for ; n > len(blanks); n -= len(blanks) {
		w.WriteString(blanks)
	}
	w.WriteString(blanks[:max(n, 0)])
}

// appendEscaped appends s as it stands between the quotes of an HCL string, so
// that Terraform reads exactly s: nothing in it is taken for a template.
func appendEscaped(b []byte, s string) []byte {
	if plain(s) {
		return append(b, s...)
	}
	// Terraform compares and keeps strings in this form, and hclwrite writes it.
	s = norm.NFC.String(s)
	for i, r := range s {
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '"', r == '\\':
			b = append(b, '\\', byte(r))
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b = append(b, byte(r), byte(r))
		case unicode.IsPrint(r):
			b = append(b, string(r)...)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return b
}

// plain reports whether s needs no escaping, which nearly all strings of a
// catalog do not.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '{' {
			return false
		}
	}
	return true
}
