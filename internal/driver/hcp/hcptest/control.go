package hcptest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Workspace is what a test sees of a workspace.
type Workspace struct {
	ID, Name   string
	Attributes map[string]any // settings, as the API calls them
	Tags       []string       // sorted
	Variables  []Variable     // with the values of sensitive ones
	Runs       []Run          // the oldest first
	Versions   []string       // IDs of configuration versions
	Current    string         // ID of the current configuration version
	State      []byte         // nil without one
	LockedBy   string         // user or ID of a run
}

// Variable is a variable of a workspace.
type Variable struct {
	Key, Value, Category string // category env or terraform
	Sensitive, HCL       bool
}

// Run is what a test sees of a run.
type Run struct {
	ID, Status, Message  string
	ConfigurationVersion string
	Upload               map[string]string // its files
	Destroy, PlanOnly    bool
	AutoApply            bool
	Confirmable          bool
	Decider              string   // user who confirmed, discarded or cancelled it
	Comments             []string // the oldest first
}

// Workspace returns a workspace of the organization. Without one, its ID is empty.
func (s *Server) Workspace(name string) (seen Workspace) {
	s.locked(func() {
		if w := s.named(s.Organization, name); w != nil {
			seen = s.seenWorkspace(w)
		}
	})
	return seen
}

// Workspaces are the names of the organization's workspaces, sorted.
func (s *Server) Workspaces() (names []string) {
	s.locked(func() {
		for _, w := range s.sorted() {
			if w.organization == s.Organization {
				names = append(names, w.name())
			}
		}
	})
	return names
}

func (s *Server) seenWorkspace(w *workspace) Workspace {
	seen := Workspace{ID: w.id, Name: w.name(), Attributes: maps.Clone(w.attributes), Tags: slices.Sorted(slices.Values(w.tags)), LockedBy: strings.TrimPrefix(w.locker, "user-")}
	for _, v := range w.variables {
		seen.Variables = append(seen.Variables, Variable{v.key(), v.value(), v.category(), v.flag("sensitive"), v.flag("hcl")})
	}
	for _, r := range w.runs {
		seen.Runs = append(seen.Runs, s.seenRun(r))
	}
	for _, v := range w.versions {
		seen.Versions = append(seen.Versions, v.id)
	}
	if w.configuration != nil {
		seen.Current = w.configuration.id
	}
	if v := w.state(); v != nil {
		seen.State = v.content
	}
	if w.current != nil {
		seen.LockedBy = w.current.id
	}
	return seen
}

func (s *Server) seenRun(r *run) Run {
	seen := Run{ID: r.id, Status: r.statusShown(), Message: r.message, ConfigurationVersion: r.version.id, Upload: map[string]string{},
		Destroy: r.destroy, PlanOnly: r.planOnly, AutoApply: r.autoApply, Confirmable: r.confirmable(), Decider: strings.TrimPrefix(r.decider, "user-")}
	files, _ := unpack(r.version.content) // it was checked
	for name, content := range files {
		seen.Upload[name] = string(content)
	}
	for _, id := range r.comments {
		seen.Comments = append(seen.Comments, s.comments[id].body)
	}
	return seen
}

// Run returns a run.
func (s *Server) Run(id string) (seen Run) {
	s.t.Helper()
	s.withRun(id, func(r *run) { seen = s.seenRun(r) })
	return seen
}

func (s *Server) withRun(id string, do func(*run)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		s.t.Errorf("HCP Terraform's stand-in has no run %q", id)
		return
	}
	do(r)
	s.changed.Broadcast()
}

func (s *Server) withWorkspace(name string, do func(*workspace)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.named(s.Organization, name)
	if w == nil {
		s.t.Errorf("HCP Terraform's stand-in has no workspace %q", name)
		return
	}
	do(w)
	s.changed.Broadcast()
}

// Await waits until a run has one of these statuses, and returns it. To await a status that a run
// has only for a moment, hold it. A run that ends with another status fails the test.
func (s *Server) Await(id string, statuses ...string) (seen Run) {
	s.t.Helper()
	s.withRun(id, func(r *run) {
		wanted := func() bool { return slices.Contains(statuses, r.statusShown()) }
		problem := func() string {
			return "run " + id + " is " + r.statusShown() + ", want " + strings.Join(statuses, " or ") + "; its log:\n" + r.planLog.String() + r.applyLog.String()
		}
		s.until(problem, func() bool { return wanted() || r.ended() })
		if r.ended() && !wanted() {
			s.t.Error(problem())
		}
		seen = s.seenRun(r)
	})
	return seen
}

// AwaitRun waits until a workspace has this many runs, and returns the last of them.
func (s *Server) AwaitRun(name string, runs int) (seen Run) {
	s.t.Helper()
	s.locked(func() {
		var w *workspace
		s.until(func() string { return "workspace " + name + " lacks runs" }, func() bool {
			w = s.named(s.Organization, name)
			return w != nil && len(w.runs) >= runs
		})
		if w != nil && len(w.runs) >= runs {
			seen = s.seenRun(w.runs[runs-1])
		}
	})
	return seen
}

// AwaitRequest waits until there were this many requests of a kind, written as in Fault.
func (s *Server) AwaitRequest(request string, times int) {
	s.t.Helper()
	s.locked(func() {
		s.until(func() string { return "too few requests " + request }, func() bool {
			n := 0
			for _, r := range s.requests {
				n += count(matches(request, r))
			}
			return n >= times
		})
	})
}

// Confirm confirms a run as a person.
func (s *Server) Confirm(run, user string) { s.t.Helper(); s.decided(run, "apply", user, "") }

// Discard discards a run as a person.
func (s *Server) Discard(run, user, comment string) {
	s.t.Helper()
	s.decided(run, "discard", user, comment)
}

// Cancel cancels a run as a person, or as the server itself if user is "".
func (s *Server) Cancel(run, user string) { s.t.Helper(); s.decided(run, "cancel", user, "") }

func (s *Server) decided(id, action, user, comment string) {
	s.t.Helper()
	s.withRun(id, func(r *run) {
		who := ""
		if user != "" {
			who = "user-" + user
		}
		if !s.do(r, action, who, comment) {
			s.t.Errorf("%s of run %s by %s: it is %s", action, id, user, r.status)
		}
	})
}

// Override overrides, as a person, a policy or the result of a run task.
func (s *Server) Override(id, user string) {
	s.t.Helper()
	s.withRun(id, func(r *run) {
		if !r.resting || r.confirmable() {
			s.t.Errorf("there is nothing to override in run %s: it is %s", id, r.status)
		}
		r.decision = "overridden"
	})
}

// Show gives a run a status that clients see instead of its own. Empty ends that.
func (s *Server) Show(id, status string) {
	s.t.Helper()
	s.withRun(id, func(r *run) { r.shown = status })
}

// Lock locks a workspace as a person.
func (s *Server) Lock(name, user string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { w.locker = "user-" + user })
}

// Unlock unlocks a workspace as a person.
func (s *Server) Unlock(name string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { w.locker = "" })
}

// Create creates a workspace with these attributes, as another program does.
func (s *Server) Create(name string, attributes map[string]any, tags ...string) {
	s.t.Helper()
	s.request(http.MethodPost, "organizations/"+s.Organization+"/workspaces", name, attributes)
	s.withWorkspace(name, func(w *workspace) { w.tags = append(w.tags, tags...) })
}

// Set changes attributes of a workspace, such as name, vcs-repo or execution-mode, without a check.
func (s *Server) Set(name string, attributes map[string]any) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { maps.Copy(w.attributes, attributes) })
}

// SetVariable adds a variable to a workspace.
func (s *Server) SetVariable(name string, v Variable) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { w.variables = append(w.variables, s.made(v)) })
}

// Inherit adds a variable of a variable set to a workspace.
func (s *Server) Inherit(name string, v Variable) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { w.inherited = append(w.inherited, s.made(v)) })
}

func (s *Server) made(v Variable) *variable {
	return &variable{id: s.newID("var"), attributes: object{
		"key": v.Key, "value": v.Value, "category": v.Category, "sensitive": v.Sensitive, "hcl": v.HCL, "description": nil}}
}

// SetOrganization changes attributes of the organization, such as default-execution-mode.
func (s *Server) SetOrganization(attributes map[string]any) {
	s.locked(func() { maps.Copy(s.organizations[s.Organization].attributes, attributes) })
}

// Untag removes a tag from a workspace as a person.
func (s *Server) Untag(name, tag string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) {
		w.tags = slices.DeleteFunc(w.tags, func(other string) bool { return other == tag })
	})
}

// Delete deletes a workspace as a person.
func (s *Server) Delete(name string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) { s.remove(w) })
}

// Upload gives a workspace a configuration version of somebody else, with one resource, and returns
// its ID.
func (s *Server) Upload(name string) (id string) {
	s.t.Helper()
	return s.UploadFiles(name, map[string]string{"main.tf": "resource \"terraform_data\" \"foreign\" {}\n"})
}

// UploadFiles gives a workspace a configuration version of somebody else with these files, and
// returns its ID.
func (s *Server) UploadFiles(name string, files map[string]string) (id string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) {
		v := &configVersion{id: s.newID("cv"), workspace: w, status: "uploaded", content: pack(files)}
		s.versions[v.id], w.configuration, id = v, v, v.id
		w.versions = append(w.versions, v)
	})
	return id
}

// Start starts, as a person, a run of the workspace's current configuration version. It returns the
// ID of the run.
func (s *Server) Start(name, user string) (id string) {
	s.t.Helper()
	s.withWorkspace(name, func(w *workspace) {
		v := w.uploaded()
		if v == nil {
			s.t.Errorf("workspace %s has no configuration version: a run cannot start", name)
			return
		}
		r := &run{workspace: w, version: v, source: "tfe-ui", message: "Triggered via UI", refresh: true, autoApply: w.flag("auto-apply"), by: "user-" + user}
		s.queue(r)
		id = r.id
	})
	return id
}

// request calls the API as the team does.
func (s *Server) request(method, path, name string, attributes map[string]any) {
	s.t.Helper()
	all := object{"name": name}
	maps.Copy(all, attributes)
	text, err := json.Marshal(object{"data": object{"type": "workspaces", "attributes": all}})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequest(method, s.URL+"/api/v2/"+path, strings.NewReader(string(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		s.t.Fatalf("%s %s: status %d", method, path, resp.StatusCode)
	}
}
