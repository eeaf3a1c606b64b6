package hcptest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

type workspace struct {
	id, organization string
	attributes       object // what can be set
	project          string
	tags             []string
	bindings         map[string]string // tags with a value
	locker           string            // user who locked it
	variables        []*variable
	inherited        []*variable // from variable sets, each with less precedence than the same of the workspace
	versions         []*configVersion
	states           []*stateVersion
	runs             []*run // the oldest first
	current          *run   // that others wait for
	configuration    *configVersion
	created          time.Time
	notifications    []*notification
}

func (w *workspace) name() string { return w.text("name") }
func (w *workspace) pool() string { return w.text("agent-pool-id") }
func (w *workspace) text(name string) string {
	text, _ := w.attributes[name].(string)
	return text
}
func (w *workspace) flag(name string) bool { v, _ := w.attributes[name].(bool); return v }

// defaults are the settings of a new workspace.
func (s *Server) defaults() object {
	return object{
		"allow-destroy-plan": true, "assessments-enabled": false, "auto-apply": false, "auto-apply-run-trigger": false,
		"description": nil, "execution-mode": "remote", "file-triggers-enabled": true, "global-remote-state": false,
		"queue-all-runs": false, "speculative-enabled": true, "source": "tfe-api", "source-name": nil, "source-url": nil,
		"structured-run-output-enabled": true, "terraform-version": s.version, "trigger-prefixes": []any{}, "trigger-patterns": []any{},
		"vcs-repo": nil, "working-directory": "", "agent-pool-id": nil,
	}
}

func (c *call) showWorkspace(w *workspace) object {
	may := !c.by.rights.NoWorkspaces
	runs := !c.by.rights.NoRuns
	a := maps.Clone(w.attributes)
	delete(a, "agent-pool-id")
	maps.Copy(a, object{
		"created-at": stamp(w.created), "updated-at": stamp(w.created), "locked": w.locker != "" || w.current != nil,
		"operations": w.text("execution-mode") != "local", "resource-count": c.shownResources(w), "tag-names": append([]string{}, slices.Sorted(slices.Values(w.tags))...),
		"workspace-kpis-runs-count": len(w.runs), "environment": "default", "can-queue-destroy-plan": true,
		"actions": object{"is-destroyable": true},
		"permissions": object{
			"can-update": may, "can-destroy": may && !c.by.rights.NoDelete, "can-force-delete": may, "can-update-variable": may, "can-read-variable": true,
			"can-lock": may, "can-unlock": may, "can-force-unlock": may, "can-manage-run-tasks": may,
			"can-queue-run": runs, "can-queue-apply": runs, "can-queue-destroy": runs, "can-read-settings": true, "can-read-state-versions": !c.by.rights.NoState,
		},
	})
	r := object{
		"organization": one("organizations", w.organization), "project": one("projects", w.project), "agent-pool": one("agent-pools", w.pool()),
		"locked-by": object{"data": nil}, "current-run": one("runs", ""), "current-state-version": one("state-versions", ""),
		"current-configuration-version": one("configuration-versions", ""), "outputs": many("workspace-outputs", nil),
	}
	var variables []string
	for _, v := range w.variables {
		variables = append(variables, v.id)
	}
	r["vars"] = many("vars", variables)
	if w.current != nil {
		r["locked-by"] = one("runs", w.current.id)
	} else if w.locker != "" {
		r["locked-by"] = one("users", w.locker)
	}
	if last := w.latest(); last != nil {
		r["current-run"] = one("runs", last.id)
	}
	if v := w.state(); v != nil {
		r["current-state-version"] = one("state-versions", v.id)
		r["outputs"] = many("workspace-outputs", v.outputIDs())
	}
	if w.configuration != nil && !c.has(NoCurrentVersion) {
		r["current-configuration-version"] = one("configuration-versions", w.configuration.id)
	}
	doc := resource("workspaces", w.id, c.counted(a), r)
	self := "/organizations/" + w.organization + "/workspaces/" + w.name()
	doc["links"] = object{"self": "/api/v2" + self, "self-html": "/app/" + w.organization + "/workspaces/" + w.name()}
	return doc
}

// latest is the run that the workspace's page shows: the one at work, else the newest.
func (w *workspace) latest() *run {
	if w.current != nil {
		return w.current
	}
	for _, r := range slices.Backward(w.runs) {
		if !r.aside() {
			return r
		}
	}
	return nil
}

// resources is how many resources the state has.
func (w *workspace) resources() int {
	if v := w.state(); v != nil {
		return v.managed()
	}
	return 0
}

// shownResources is what answers say of that.
func (s *Server) shownResources(w *workspace) int {
	if s.has(ZeroCounts) {
		return 0
	}
	return w.resources()
}

func (s *Server) routeWorkspaces() {
	const org, one = "/api/v2/organizations/{org}/workspaces", "/api/v2/workspaces/{id}"
	s.mux.HandleFunc("GET "+org, s.inOrganization((*call).listWorkspaces))
	s.mux.HandleFunc("POST "+org, s.inOrganization((*call).createWorkspace))
	for _, at := range []string{org + "/{name}", one} {
		s.mux.HandleFunc("GET "+at, s.ofWorkspace(func(c *call, w *workspace) (answer, error) { return answer{data: c.showWorkspace(w)}, nil }))
		s.mux.HandleFunc("PATCH "+at, s.ofWorkspace((*call).updateWorkspace))
		s.mux.HandleFunc("DELETE "+at, s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
			if c.by.rights.NoWorkspaces {
				return c.missing()
			}
			c.remove(w)
			return answer{status: http.StatusNoContent}, nil
		}))
		s.mux.HandleFunc("POST "+at+"/actions/safe-delete", s.ofWorkspace((*call).safeDelete))
	}
	s.mux.HandleFunc("POST "+one+"/actions/{action}", s.ofWorkspace((*call).lockWorkspace))
	s.mux.HandleFunc("GET "+one+"/relationships/tags", s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		all := []object{}
		for _, tag := range slices.Sorted(slices.Values(w.tags)) {
			all = append(all, resource("tags", "tag-"+tag, object{"name": tag, "instance-count": 1}, nil))
		}
		return answer{data: all}, nil
	}))
	s.mux.HandleFunc("POST "+one+"/relationships/tags", s.ofWorkspace((*call).changeTags))
	s.mux.HandleFunc("DELETE "+one+"/relationships/tags", s.ofWorkspace((*call).changeTags))
	for _, at := range []string{"/tag-bindings", "/effective-tag-bindings"} {
		s.mux.HandleFunc("GET "+one+at, s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
			all := []object{}
			for _, key := range slices.Sorted(maps.Keys(w.bindings)) {
				all = append(all, resource(at[1:], "tb-"+key, object{"key": key, "value": w.bindings[key]}, nil))
			}
			return answer{data: all}, nil
		}))
	}
	s.mux.HandleFunc("PATCH "+one+"/tag-bindings", s.ofWorkspace((*call).bindTags))
}

// ofWorkspace finds the workspace of a path, by its ID or by its name.
func (s *Server) ofWorkspace(do func(*call, *workspace) (answer, error)) http.HandlerFunc {
	return s.handle(func(c *call) (answer, error) {
		w := c.workspaces[c.id()]
		if w == nil {
			w = c.named(c.r.PathValue("org"), c.r.PathValue("name"))
		}
		if w == nil {
			return c.missing()
		}
		return do(c, w)
	}, false)
}

func (s *Server) named(organization, name string) *workspace {
	for _, w := range s.workspaces {
		if w.organization == organization && strings.EqualFold(w.name(), name) && name != "" {
			return w
		}
	}
	return nil
}

func (c *call) listWorkspaces(o *organization) (answer, error) {
	q := c.r.URL.Query()
	all := []object{}
	for _, w := range c.sorted() {
		wildcard, _ := path.Match(q.Get("search[wildcard-name]"), w.name())
		has := func(tag string) bool { return slices.Contains(w.tags, tag) }
		switch {
		case w.organization != o.name, !strings.Contains(w.name(), q.Get("search[name]")):
		case q.Has("search[wildcard-name]") && !wildcard:
		case slices.ContainsFunc(c.query("search[tags]"), func(tag string) bool { return !has(tag) }):
		case slices.ContainsFunc(c.query("search[exclude-tags]"), has):
		case q.Get("filter[project][id]") != "" && q.Get("filter[project][id]") != w.project:
		case q.Has("filter[current-run][status]") && (w.latest() == nil || !c.picks("filter[current-run][status]", w.latest().status)):
		default:
			all = append(all, c.showWorkspace(w))
		}
	}
	by, reverse := strings.CutPrefix(q.Get("sort"), "-")
	if by == "current-run.created-at" { // those without a run are last
		when := func(w object) string {
			if r := c.related(w, "current-run"); len(r) > 0 {
				return r[0]["attributes"].(object)["created-at"].(string)
			}
			return "~"
		}
		slices.SortStableFunc(all, func(a, b object) int { return cmp.Compare(when(a), when(b)) })
	}
	if reverse {
		slices.Reverse(all)
	}
	return answer{data: all}, nil
}

var workspaceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,90}$`)

func (c *call) createWorkspace(o *organization) (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	if c.by.rights.NoWorkspaces {
		return c.missing()
	}
	w := &workspace{organization: o.name, attributes: c.defaults(), project: cmp.Or(in.related("project"), o.project), bindings: map[string]string{}, created: time.Now()}
	w.attributes["execution-mode"] = o.attributes["default-execution-mode"]
	if w.text("execution-mode") == "agent" {
		w.attributes["agent-pool-id"] = o.pool
	}
	_, chosen := in.Attributes["execution-mode"]
	w.attributes["setting-overwrites"] = object{"execution-mode": chosen, "agent-pool": chosen}
	if a, err := c.set(w, in); err != nil {
		return a, err
	}
	w.id = c.newID("ws")
	c.workspaces[w.id] = w
	return answer{status: http.StatusCreated, data: c.showWorkspace(w)}, nil
}

func (c *call) updateWorkspace(w *workspace) (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	if c.by.rights.NoWorkspaces {
		return c.missing()
	}
	if a, err := c.set(w, in); err != nil {
		return a, err
	}
	w.project = cmp.Or(in.related("project"), w.project)
	return answer{data: c.showWorkspace(w)}, nil
}

var terraformVersion = regexp.MustCompile(`^(latest|([~<>=! ]*\d+\.\d+(\.\d+)?(-\w+)?,? ?)+)$`)

// set checks and takes over attributes and tags.
func (c *call) set(w *workspace, in incoming) (answer, error) {
	next := maps.Clone(w.attributes)
	maps.Copy(next, in.Attributes)
	if repository, _ := next["vcs-repo"].(object); repository["identifier"] == nil {
		next["vcs-repo"] = nil
	}
	overwrites, _ := in.Attributes["setting-overwrites"].(object)
	if o := c.organizations[w.organization]; overwrites["execution-mode"] == false {
		next["execution-mode"], next["agent-pool-id"] = o.attributes["default-execution-mode"], o.pool
	}
	mode, pool := next["execution-mode"], next["agent-pool-id"]
	if operations, ok := in.Attributes["operations"].(bool); ok {
		mode = map[bool]string{true: "remote", false: "local"}[operations]
		next["execution-mode"] = mode
	}
	if mode != "agent" {
		next["agent-pool-id"], pool = nil, nil
	}
	name, _ := next["name"].(string)
	version, _ := next["terraform-version"].(string)
	other := c.named(w.organization, name)
	id, _ := pool.(string)
	switch {
	case !workspaceName.MatchString(name):
		return invalid("Name is invalid")
	case other != nil && other != w:
		return invalid("Name has already been taken")
	case !slices.Contains([]any{"remote", "local", "agent"}, mode):
		return invalid("Execution mode is invalid")
	case mode == "agent" && c.pools[id] == nil:
		return invalid("Agent pool must be specified with the execution mode agent")
	case !terraformVersion.MatchString(version):
		return invalid("Terraform version %q is invalid", version)
	}
	w.attributes = next
	if relation, ok := in.Relationships["tags"]; ok {
		w.tag(relation.Data, true)
	}
	if relation, ok := in.Relationships["tag-bindings"]; ok {
		w.bind(relation.Data)
	}
	return answer{}, nil
}

// tag adds or removes tags.
func (w *workspace) tag(data json.RawMessage, add bool) {
	var tags []struct {
		ID         string
		Attributes struct{ Name string }
	}
	_ = json.Unmarshal(data, &tags)
	for _, tag := range tags {
		name := strings.ToLower(cmp.Or(tag.Attributes.Name, strings.TrimPrefix(tag.ID, "tag-"))) // as HCP Terraform does
		w.tags = slices.DeleteFunc(w.tags, func(other string) bool { return other == name })
		if add {
			w.tags = append(w.tags, name)
		}
	}
}

func (w *workspace) bind(data json.RawMessage) {
	var tags []struct{ Attributes struct{ Key, Value string } }
	_ = json.Unmarshal(data, &tags)
	for _, tag := range tags {
		w.bindings[tag.Attributes.Key] = tag.Attributes.Value
	}
}

// list decodes a body that is a list of resources.
func (c *call) list() (json.RawMessage, error) {
	var body struct{ Data json.RawMessage }
	err := json.NewDecoder(c.r.Body).Decode(&body)
	return body.Data, err
}

func (c *call) changeTags(w *workspace) (answer, error) {
	data, err := c.list()
	if err != nil {
		return refuse(http.StatusBadRequest, "bad request", "%v", err)
	}
	if c.by.rights.NoWorkspaces {
		return c.missing()
	}
	w.tag(data, c.r.Method == http.MethodPost)
	return answer{status: http.StatusNoContent}, nil
}

func (c *call) bindTags(w *workspace) (answer, error) {
	data, err := c.list()
	if err != nil {
		return refuse(http.StatusBadRequest, "bad request", "%v", err)
	}
	w.bind(data)
	return answer{data: []object{}}, nil
}

func (c *call) lockWorkspace(w *workspace) (answer, error) {
	action := c.r.PathValue("action")
	switch {
	case c.by.rights.NoWorkspaces:
		return c.missing()
	case action == "lock" && (w.locker != "" || w.current != nil):
		return conflict("unable to lock workspace: it is locked already")
	case action == "unlock" && w.current != nil:
		return conflict("unable to unlock workspace: it is locked by Run " + w.current.id)
	case (action == "unlock" || action == "force-unlock") && w.locker == "":
		return conflict("unable to unlock workspace: it is not locked")
	case action == "unlock" && w.locker != c.by.id:
		return conflict("unable to unlock workspace: it is locked by User " + w.locker)
	case action == "lock":
		w.locker = c.by.id
	case action == "unlock", action == "force-unlock":
		w.locker = ""
	default:
		return c.missing()
	}
	return answer{data: c.showWorkspace(w)}, nil
}

// safeDelete deletes a workspace that manages nothing.
func (c *call) safeDelete(w *workspace) (answer, error) {
	switch {
	case c.by.rights.NoWorkspaces, c.by.rights.NoDelete:
		return c.missing()
	case w.locker != "" || w.current != nil:
		return conflict("workspace is locked")
	case w.resources() > 0:
		return conflict("conflict: the workspace manages resources")
	}
	c.remove(w)
	return answer{status: http.StatusNoContent}, nil
}

// remove deletes a workspace and stops its runs.
func (s *Server) remove(w *workspace) {
	for _, r := range w.runs {
		if !r.ended() {
			r.end("canceled")
		}
		delete(s.runs, r.id)
	}
	delete(s.workspaces, w.id)
	s.changed.Broadcast()
}
