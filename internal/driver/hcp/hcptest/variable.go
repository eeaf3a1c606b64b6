package hcptest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

type variable struct {
	id         string
	attributes object // key, value, category, hcl, sensitive, description
	changes    int
}

func (v *variable) key() string      { return v.attributes["key"].(string) }
func (v *variable) category() string { return v.attributes["category"].(string) }
func (v *variable) value() string    { text, _ := v.attributes["value"].(string); return text }
func (v *variable) flag(name string) bool {
	on, _ := v.attributes[name].(bool)
	return on
}

func (v *variable) show(w *workspace) object {
	a := maps.Clone(v.attributes)
	a["version-id"] = fmt.Sprintf("%s-%d", v.id, v.changes)
	if v.flag("sensitive") {
		a["value"] = nil
	}
	of := one("workspaces", w.id)
	if slices.Contains(w.inherited, v) {
		of = one("varsets", "varset-1")
	}
	return resource("vars", v.id, a, object{"configurable": of})
}

// effective returns the variables that a run gets: the workspace's own replace inherited ones.
func (w *workspace) effective() []*variable {
	all := slices.Clone(w.variables)
	for _, v := range w.inherited {
		if !slices.ContainsFunc(w.variables, func(own *variable) bool { return own.key() == v.key() && own.category() == v.category() }) {
			all = append(all, v)
		}
	}
	return all
}

// maxValue is the limit of a variable's value.
const maxValue = 256 << 10

func (s *Server) routeVariables() {
	const of = "/api/v2/workspaces/{id}/vars"
	list := func(which func(*workspace) []*variable) http.HandlerFunc {
		return s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
			list := []object{}
			for _, v := range which(w) {
				list = append(list, v.show(w))
			}
			return answer{data: list, unpaged: true}, nil
		})
	}
	s.mux.HandleFunc("GET "+of, list(func(w *workspace) []*variable { return w.variables }))
	s.mux.HandleFunc("GET /api/v2/workspaces/{id}/all-vars", list((*workspace).effective))
	s.mux.HandleFunc("POST "+of, s.ofWorkspace((*call).createVariable))
	s.mux.HandleFunc(of+"/{var}", s.ofWorkspace((*call).variable))
}

func (c *call) createVariable(w *workspace) (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	if c.by.rights.NoWorkspaces {
		return c.missing()
	}
	v := &variable{attributes: object{"key": nil, "value": "", "category": nil, "hcl": false, "sensitive": false, "description": nil}}
	if a, err := v.set(w, in.Attributes); err != nil {
		return a, err
	}
	v.id = c.newID("var")
	w.variables = append(w.variables, v)
	return answer{status: http.StatusCreated, data: v.show(w)}, nil
}

// set checks and takes over attributes.
func (v *variable) set(w *workspace, attributes object) (answer, error) {
	next := maps.Clone(v.attributes)
	for name, value := range attributes {
		if _, ok := next[name]; ok {
			next[name] = value
		}
	}
	key, _ := next["key"].(string)
	category, _ := next["category"].(string)
	value, _ := next["value"].(string)
	description, _ := next["description"].(string)
	switch {
	case key == "" || len(key) > 128:
		return invalid("Key can't be blank or longer than 128 characters")
	case category != "env" && category != "terraform":
		return invalid("Category is invalid")
	case len(description) > 512:
		return invalid("Description is too long (maximum is 512 characters)")
	case len(value) > maxValue:
		return invalid("Value is too long (maximum is 256 KB)")
	case v.id != "" && v.flag("sensitive") && (next["sensitive"] == false || key != v.key()):
		return invalid("Key and sensitive cannot be changed of a sensitive variable")
	case slices.ContainsFunc(w.variables, func(other *variable) bool {
		return other != v && other.key() == key && other.category() == category
	}):
		return invalid("Key has already been taken")
	}
	v.attributes = next
	v.changes++
	return answer{}, nil
}

func (c *call) variable(w *workspace) (answer, error) {
	at := slices.IndexFunc(w.variables, func(v *variable) bool { return v.id == c.r.PathValue("var") })
	if at < 0 {
		return c.missing()
	}
	v := w.variables[at]
	if c.r.Method == http.MethodGet {
		return answer{data: v.show(w)}, nil
	}
	if c.by.rights.NoWorkspaces {
		return c.missing()
	}
	if c.r.Method == http.MethodDelete {
		w.variables = slices.Delete(w.variables, at, at+1)
		return answer{status: http.StatusNoContent}, nil
	}
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	if _, named := in.Attributes["value"]; c.has(ValueOnly) && v.flag("sensitive") && (!named || len(in.Attributes) > 1) {
		return invalid("Only the value of a sensitive variable can be changed")
	}
	if a, err := v.set(w, in.Attributes); err != nil {
		return a, err
	}
	return answer{data: v.show(w)}, nil
}
