package condition

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// namesInWords is how many names the words for a condition list.
const namesInWords = 20

// String says which services are selected.
func (s Services) String() string {
	queries := make([]string, len(s))
	for i, q := range s {
		queries[i] = q.String()
	}
	return strings.Join(queries, "; ")
}

func (q ServiceQuery) String() string {
	text := listed("service", q.Names)
	if q.Regexp != nil {
		text = matching(*q.Regexp)
	}
	text += Scope{q.Datacenter, q.Namespace}.String()
	if filter := strings.Trim(q.Filter, "\n"); filter != "" {
		text += " with filter " + filter
	}
	return text
}

// String says of which services the names are selected.
func (c CatalogServices) String() string {
	text := "names of " + matching(c.Regexp) + Scope{c.Datacenter, c.Namespace}.String()
	var meta []string
	for _, key := range slices.Sorted(maps.Keys(c.NodeMeta)) {
		meta = append(meta, key+"="+c.NodeMeta[key])
	}
	if len(meta) > 0 {
		text += " on nodes with " + strings.Join(meta, ", ")
	}
	return text
}

// String says which keys are selected.
func (c ConsulKV) String() string {
	text := "key " + c.Path
	switch path := strings.TrimPrefix(c.Path, "/"); {
	case c.Recurse && path == "":
		text = "every key"
	case c.Recurse:
		text = "keys that begin with " + path
	}
	return text + Scope{c.Datacenter, c.Namespace}.String()
}

// String says when the condition is due.
func (s Schedule) String() string { return "schedule " + s.Cron }

// listed names things, such as "services api and web".
func listed(what string, names []string) string {
	switch n := len(names); {
	case n == 0:
		return "no " + what
	case n == 1:
		return what + " " + names[0]
	case n > namesInWords:
		return fmt.Sprintf("%ss %s and %d more", what, strings.Join(names[:namesInWords], ", "), n-namesInWords)
	default:
		return what + "s " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// matching says which services an expression selects. It may match anywhere in a name.
func matching(expression string) string {
	if expression == "" || expression == ".*" {
		return "every service"
	}
	return fmt.Sprintf("services that match %q", expression)
}
