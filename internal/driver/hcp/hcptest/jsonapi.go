package hcptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// resource is an object of JSON:API.
func resource(kind, id string, attributes, relationships object) object {
	return object{"type": kind, "id": id, "attributes": attributes, "relationships": relationships,
		"links": object{"self": "/api/v2/" + kind + "/" + id}}
}

// one is a relationship to one resource, or to none.
func one(kind, id string) object {
	if id == "" {
		return object{"data": nil}
	}
	return object{"data": object{"type": kind, "id": id}}
}

// many is a relationship to resources.
func many(kind string, ids []string) object {
	all := []object{}
	for _, id := range ids {
		all = append(all, object{"type": kind, "id": id})
	}
	return object{"data": all}
}

// call is a request to the API, answered while the server is locked.
type call struct {
	*Server
	r  *http.Request
	by *account
}

func (c *call) id() string { return c.r.PathValue("id") }

// answer is what a call returns.
type answer struct {
	status   int    // 200 if 0
	data     any    // an object, or a list of which a page is shown
	endless  bool   // the list does not say how long it is
	whole    bool   // the list has no pages unless the request wants one
	unpaged  bool   // the list never has pages
	raw      []byte // instead of data
	location string
}

// refusal is an error of the API.
type refusal struct {
	status        int
	title, detail string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.title, r.detail) }

func refuse(status int, title, format string, args ...any) (answer, error) {
	return answer{}, &refusal{status, title, fmt.Sprintf(format, args...)}
}

func (c *call) missing() (answer, error) { return refuse(http.StatusNotFound, "not found", "") }

func invalid(format string, args ...any) (answer, error) {
	return refuse(http.StatusUnprocessableEntity, "invalid attribute", format, args...)
}

func conflict(title string) (answer, error) { return refuse(http.StatusConflict, title, "") }

// incoming is the body of a request.
type incoming struct {
	Attributes    object
	Relationships map[string]struct{ Data json.RawMessage }
	Comment       string // of actions, which are not JSON:API
}

// read decodes the body of a request about one resource.
func (c *call) read() (incoming, error) {
	var body struct {
		Data struct {
			Attributes    object
			Relationships map[string]struct{ Data json.RawMessage }
		}
		Comment string
	}
	if c.r.ContentLength == 0 {
		return incoming{}, nil
	}
	if err := json.NewDecoder(c.r.Body).Decode(&body); err != nil {
		_, err := refuse(http.StatusBadRequest, "bad request", "%v", err)
		return incoming{}, err
	}
	return incoming{body.Data.Attributes, body.Data.Relationships, body.Comment}, nil
}

// related returns the ID of a relationship to one resource.
func (in incoming) related(name string) string {
	var to struct{ ID string }
	_ = json.Unmarshal(in.Relationships[name].Data, &to) // null or missing
	return to.ID
}

// allRelated returns the IDs of a relationship to several resources.
func (in incoming) allRelated(name string) (ids []string) {
	var all []struct{ ID string }
	_ = json.Unmarshal(in.Relationships[name].Data, &all) // null or missing
	for _, to := range all {
		ids = append(ids, to.ID)
	}
	return ids
}

// text returns an attribute.
func (in incoming) text(name string) string {
	text, _ := in.Attributes[name].(string)
	return text
}

func (in incoming) flag(name string, otherwise bool) bool {
	if v, ok := in.Attributes[name].(bool); ok {
		return v
	}
	return otherwise
}

// handle makes a handler of a function. Open means that a request needs no token.
func (s *Server) handle(do func(*call) (answer, error), open bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := &call{Server: s, r: r}
		var a answer
		var err error
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			c.by = s.tokens[token]
		}
		if c.by == nil && !open {
			_, err = refuse(http.StatusUnauthorized, "unauthorized", "")
		} else {
			a, err = do(c)
		}
		s.changed.Broadcast()
		write(w, r, c, a, err)
	}
}

func write(w http.ResponseWriter, r *http.Request, c *call, a answer, err error) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.Header().Set("TFP-API-Version", "2.6")
	w.Header().Set("TFP-AppName", "HCP Terraform")
	w.Header().Set("X-RateLimit-Limit", "30")
	if no, ok := err.(*refusal); ok {
		if no.status == http.StatusConflict && c.has(BrokenConflicts) {
			no.status = http.StatusInternalServerError
		}
		w.WriteHeader(no.status)
		problem := object{"status": strconv.Itoa(no.status), "title": no.title}
		if no.detail != "" {
			problem["detail"] = no.detail
		}
		json.NewEncoder(w).Encode(object{"errors": []object{problem}})
		return
	}
	if err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	if a.location != "" {
		w.Header().Set("Location", c.base(r)+a.location)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	switch data := a.data.(type) {
	case object:
		json.NewEncoder(w).Encode(object{"data": data, "included": c.included([]object{data})})
	case []object:
		if a.unpaged || a.whole && !r.URL.Query().Has("page[number]") {
			json.NewEncoder(w).Encode(object{"data": data, "included": c.included(data)})
			return
		}
		page, meta := c.page(data, a.endless)
		json.NewEncoder(w).Encode(object{"data": page, "included": c.included(page), "meta": object{"pagination": meta}})
	default:
		w.Write(a.raw)
	}
}

// page picks the page of a list that is requested.
func (c *call) page(all []object, endless bool) ([]object, object) {
	number, _ := strconv.Atoi(c.r.URL.Query().Get("page[number]"))
	size, _ := strconv.Atoi(c.r.URL.Query().Get("page[size]"))
	number = max(number, 1)
	if size <= 0 {
		size = 20
	}
	size = min(size, 100)
	from := min((number-1)*size, len(all))
	to := min(from+size, len(all))
	meta := object{"current-page": number, "page-size": size, "prev-page": nil, "next-page": nil}
	if number > 1 {
		meta["prev-page"] = number - 1
	}
	if to < len(all) {
		meta["next-page"] = number + 1
	}
	if !endless {
		meta["total-count"], meta["total-pages"] = len(all), max(1, (len(all)+size-1)/size)
	}
	return append([]object{}, all[from:to]...), meta
}

// included returns the related resources that the request wants beside the given ones.
func (c *call) included(from []object) []object {
	all, seen := []object{}, map[string]bool{}
	for path := range strings.SplitSeq(c.r.URL.Query().Get("include"), ",") {
		level := from
		for name := range strings.SplitSeq(path, ".") {
			var next []object
			for _, r := range level {
				if c.has(NoParts) && (name == "plan" || name == "apply") {
					continue
				}
				next = append(next, c.related(r, strings.ReplaceAll(name, "_", "-"))...)
			}
			for _, r := range next {
				if key := fmt.Sprint(r["type"], r["id"]); !seen[key] {
					seen[key] = true
					all = append(all, r)
				}
			}
			level = next
		}
	}
	return all
}

func (c *call) related(r object, name string) []object {
	relationships, _ := r["relationships"].(object)
	relation, _ := relationships[name].(object)
	var all []object
	switch data := relation["data"].(type) {
	case object:
		all = []object{data}
	case []object:
		all = data
	}
	found := []object{}
	for _, to := range all {
		if r := c.resolve(fmt.Sprint(to["type"]), fmt.Sprint(to["id"])); r != nil {
			found = append(found, r)
		}
	}
	return found
}

// resolve returns a resource by its kind and ID.
func (c *call) resolve(kind, id string) object {
	switch kind {
	case "workspaces":
		if w := c.workspaces[id]; w != nil {
			return c.showWorkspace(w)
		}
	case "runs":
		if r := c.runs[id]; r != nil {
			return c.showRun(r)
		}
	case "plans", "applies", "cost-estimates", "policy-checks", "task-stages":
		if r := c.runOf(id); r != nil {
			return c.showPart(r, kind, id)
		}
	case "configuration-versions":
		if v := c.versions[id]; v != nil {
			return c.showVersion(v)
		}
	case "state-versions":
		if v := c.states[id]; v != nil {
			return c.showState(v)
		}
	case "workspace-outputs", "state-version-outputs":
		if v := c.states[id[max(strings.LastIndex(id, "sv-"), 0):]]; v != nil {
			outputs := v.outputs()
			if at := slices.IndexFunc(outputs, func(o object) bool { return o["id"] == id }); at >= 0 {
				outputs[at]["type"] = kind
				return outputs[at]
			}
		}
	case "comments":
		if v := c.comments[id]; v != nil {
			return v.show()
		}
	case "organizations":
		if o := c.organizations[id]; o != nil {
			return o.show()
		}
	case "users":
		return showUser(id)
	case "agent-pools":
		if p := c.pools[id]; p != nil {
			return c.showPool(p)
		}
	case "projects":
		if p := c.projects[id]; p != nil {
			return p.show()
		}
	case "run-events":
		if r := c.runOf(id); r != nil {
			return r.showEvent(id)
		}
	}
	return nil
}

// query returns a parameter with several values, and nil if it is not set.
func (c *call) query(name string) []string {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// picks reports whether a filter of the query lets a value pass.
func (c *call) picks(name, value string) bool {
	values := c.query(name)
	return values == nil || slices.Contains(values, value)
}
