package hcptest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

type organization struct {
	name       string
	attributes object
	project    string // the default one
	pool       any    // ID of the agent pool of workspaces with the organization's execution mode
}

// organize adds an organization.
func (s *Server) organize(name string, attributes object) *organization {
	o := &organization{name: name, attributes: object{
		"name": name, "external-id": s.newID("org"), "cost-estimation-enabled": false, "default-execution-mode": "remote",
		"collaborator-auth-policy": "password", "created-at": stamp(time.Now()),
		"permissions": object{"can-update": true, "can-create-workspace": true, "can-create-team": true, "can-destroy": true},
	}}
	maps.Copy(o.attributes, attributes)
	p := &project{id: s.newID("prj"), organization: name, attributes: object{"name": "Default Project", "description": ""}}
	s.projects[p.id], o.project = p, p.id
	s.organizations[name] = o
	return o
}

func (o *organization) show() object {
	return resource("organizations", o.name, o.attributes, object{"default-project": one("projects", o.project)})
}

// project is a group of workspaces.
type project struct {
	id, organization string
	attributes       object
}

func (p *project) show() object {
	return resource("projects", p.id, p.attributes, object{"organization": one("organizations", p.organization)})
}

type agentPool struct {
	id, organization string
	attributes       object
	allowed          map[string]object // relationships
}

// poolRelations say who may use a pool.
var poolRelations = map[string]string{"allowed-workspaces": "workspaces", "allowed-projects": "projects", "excluded-workspaces": "workspaces"}

func (p *agentPool) set(in incoming) {
	maps.Copy(p.attributes, in.Attributes)
	for name, kind := range poolRelations {
		if _, ok := in.Relationships[name]; ok || p.allowed[name] == nil {
			p.allowed[name] = many(kind, in.allRelated(name))
		}
	}
}

func (c *call) showPool(p *agentPool) object {
	var users []string
	for _, w := range c.sorted() {
		if w.pool() == p.id {
			users = append(users, w.id)
		}
	}
	r := object{"organization": one("organizations", p.organization), "workspaces": many("workspaces", users)}
	for name, relation := range p.allowed {
		r[name] = relation
	}
	return resource("agent-pools", p.id, p.attributes, r)
}

func showUser(id string) object {
	name := strings.TrimPrefix(id, "user-")
	if name == "team" {
		name = "api-team_acme"
	}
	return resource("users", id, object{"username": name, "is-service-account": name == "api-team_acme", "email": name + "@acme.test"}, nil)
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// organization finds the organization of a path.
func (s *Server) inOrganization(do func(*call, *organization) (answer, error)) http.HandlerFunc {
	return s.handle(func(c *call) (answer, error) {
		o := c.organizations[c.r.PathValue("org")]
		if o == nil {
			return c.missing()
		}
		return do(c, o)
	}, false)
}

func (s *Server) routeOrganizations() {
	const org = "/api/v2/organizations/{org}"
	s.mux.HandleFunc("POST /api/v2/organizations", s.handle(func(c *call) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		if in.text("name") == "" || c.organizations[in.text("name")] != nil {
			return invalid("Name has already been taken")
		}
		return answer{status: http.StatusCreated, data: c.organize(in.text("name"), in.Attributes).show()}, nil
	}, false))
	s.mux.HandleFunc("GET /api/v2/organizations", s.handle(func(c *call) (answer, error) {
		all := []object{}
		for _, name := range slices.Sorted(maps.Keys(c.organizations)) {
			all = append(all, c.organizations[name].show())
		}
		return answer{data: all}, nil
	}, false))
	s.mux.HandleFunc("GET "+org, s.inOrganization(func(c *call, o *organization) (answer, error) { return answer{data: o.show()}, nil }))
	s.mux.HandleFunc("PATCH "+org, s.inOrganization(func(c *call, o *organization) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		maps.Copy(o.attributes, in.Attributes)
		if pool := in.related("default-agent-pool"); pool != "" {
			o.pool = pool
		}
		return answer{data: o.show()}, nil
	}))
	s.mux.HandleFunc("DELETE "+org, s.inOrganization(func(c *call, o *organization) (answer, error) {
		for _, w := range c.sorted() {
			if w.organization == o.name {
				c.remove(w)
			}
		}
		delete(c.organizations, o.name)
		return answer{status: http.StatusNoContent}, nil
	}))
	s.mux.HandleFunc("GET "+org+"/entitlement-set", s.inOrganization(func(c *call, o *organization) (answer, error) {
		return answer{data: resource("entitlement-sets", o.name, object{"operations": true, "state-storage": true, "agents": true,
			"cost-estimation": true, "run-tasks": true, "sentinel": true, "teams": true}, nil)}, nil
	}))
	s.mux.HandleFunc("GET "+org+"/capacity", s.inOrganization(func(c *call, o *organization) (answer, error) {
		return answer{data: resource("organization-capacity", o.name, object{"pending": 0, "running": 0}, nil)}, nil
	}))
	s.mux.HandleFunc("GET "+org+"/stacks", s.inOrganization(func(c *call, o *organization) (answer, error) { return answer{data: []object{}}, nil }))
	s.mux.HandleFunc("GET "+org+"/projects", s.inOrganization(func(c *call, o *organization) (answer, error) {
		all := []object{}
		for _, id := range slices.Sorted(maps.Keys(c.projects)) {
			p := c.projects[id]
			if p.organization == o.name && c.picks("filter[names]", p.attributes["name"].(string)) {
				all = append(all, p.show())
			}
		}
		return answer{data: all}, nil
	}))
	s.mux.HandleFunc("POST "+org+"/projects", s.inOrganization(func(c *call, o *organization) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		p := &project{id: c.newID("prj"), organization: o.name, attributes: in.Attributes}
		c.projects[p.id] = p
		return answer{status: http.StatusCreated, data: p.show()}, nil
	}))
	s.mux.HandleFunc("GET "+org+"/agent-pools", s.inOrganization(func(c *call, o *organization) (answer, error) {
		all := []object{}
		for _, id := range slices.Sorted(maps.Keys(c.pools)) {
			p := c.pools[id]
			if p.organization == o.name && strings.Contains(p.attributes["name"].(string), c.r.URL.Query().Get("q")) {
				all = append(all, c.showPool(p))
			}
		}
		return answer{data: all}, nil
	}))
	s.mux.HandleFunc("POST "+org+"/agent-pools", s.inOrganization(func(c *call, o *organization) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		return answer{status: http.StatusCreated, data: c.showPool(c.addPool(o.name, in))}, nil
	}))
	s.mux.HandleFunc("/api/v2/agent-pools/{id}", s.handle((*call).agentPool, false))
	s.mux.HandleFunc("/api/v2/projects/{id}", s.handle(func(c *call) (answer, error) {
		p := c.projects[c.id()]
		if p == nil {
			return c.missing()
		}
		if c.r.Method == http.MethodDelete {
			delete(c.projects, p.id)
			return answer{status: http.StatusNoContent}, nil
		}
		return answer{data: p.show()}, nil
	}, false))
	s.mux.HandleFunc("GET /api/v2/account/details", s.handle(func(c *call) (answer, error) { return answer{data: showUser(c.by.id)}, nil }, false))
}

func (s *Server) addPool(organization string, in incoming) *agentPool {
	p := &agentPool{id: s.newID("apool"), organization: organization, allowed: map[string]object{},
		attributes: object{"organization-scoped": true, "agent-count": 1, "created-at": stamp(time.Now())}}
	p.set(in)
	s.pools[p.id] = p
	return p
}

// AgentPool adds a pool with an agent and returns its ID.
func (s *Server) AgentPool(name string) (id string) {
	s.locked(func() { id = s.addPool(s.Organization, incoming{Attributes: object{"name": name}}).id })
	return id
}

func (c *call) agentPool() (answer, error) {
	p := c.pools[c.id()]
	if p == nil {
		return c.missing()
	}
	switch c.r.Method {
	case http.MethodDelete:
		delete(c.pools, p.id)
		return answer{status: http.StatusNoContent}, nil
	case http.MethodPatch:
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		p.set(in)
	}
	return answer{data: c.showPool(p)}, nil
}

// sorted returns all workspaces, by name.
func (s *Server) sorted() []*workspace {
	return slices.SortedFunc(maps.Values(s.workspaces), func(a, b *workspace) int { return cmp.Compare(a.name(), b.name()) })
}
