package hcptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// stateVersion is a version of a workspace's state.
type stateVersion struct {
	id        string
	workspace *workspace
	run       *run
	serial    int
	content   []byte // nil until it was uploaded
	json      []byte
	upload    []byte // that was applied, without Terraform
	created   time.Time
	paths     map[string]string // signed
}

// state is the workspace's current state, or nil.
func (w *workspace) state() *stateVersion {
	for _, v := range slices.Backward(w.states) {
		if v.content != nil {
			return v
		}
	}
	return nil
}

// managed is how many resources the state has.
func (v *stateVersion) managed() int {
	var doc struct {
		Resources []struct {
			Mode      string
			Instances []json.RawMessage
		}
	}
	_ = json.Unmarshal(v.content, &doc) // what is no state has no resources
	n := 0
	for _, r := range doc.Resources {
		if r.Mode == "managed" {
			n += len(r.Instances)
		}
	}
	return n
}

// outputs are the outputs of the state, by name. Sensitive ones have no value.
func (v *stateVersion) outputs() []object {
	var doc struct {
		Outputs map[string]struct {
			Value, Type any
			Sensitive   bool
		}
	}
	_ = json.Unmarshal(v.content, &doc)
	all := []object{}
	for _, name := range slices.Sorted(maps.Keys(doc.Outputs)) {
		o := doc.Outputs[name]
		if o.Sensitive {
			o.Value = nil
		}
		all = append(all, resource("state-version-outputs", "wsout-"+name+"-"+v.id, object{
			"name": name, "value": o.Value, "sensitive": o.Sensitive, "type": fmt.Sprint(o.Type), "detailed-type": o.Type}, nil))
	}
	return all
}

func (v *stateVersion) outputIDs() (ids []string) {
	for _, o := range v.outputs() {
		ids = append(ids, o["id"].(string))
	}
	return ids
}

// addState makes a state the current one.
func (s *Server) addState(w *workspace, content []byte, r *run) *stateVersion {
	v := &stateVersion{id: s.newID("sv"), workspace: w, run: r, content: content, created: time.Now(), paths: map[string]string{}}
	var doc struct{ Serial int }
	_ = json.Unmarshal(content, &doc)
	v.serial = doc.Serial
	s.states[v.id] = v
	w.states = append(w.states, v)
	for _, kind := range []string{"state", "json"} {
		v.paths[kind] = s.sign(kind, func(c *call) (answer, error) {
			at := &v.content
			if kind == "json" {
				at = &v.json
			}
			if c.r.Method != http.MethodPut {
				return answer{raw: *at}, nil
			}
			sent, err := io.ReadAll(c.r.Body)
			if err != nil {
				return refuse(http.StatusBadRequest, "bad request", "%v", err)
			}
			*at = sent
			return answer{}, nil
		})
	}
	return v
}

func (c *call) showState(v *stateVersion) object {
	a := object{"serial": v.serial, "created-at": stamp(v.created), "status": "pending", "size": len(v.content), "resources-processed": true,
		"terraform-version": c.version, "state-version": 4}
	if v.content == nil {
		a["hosted-state-upload-url"] = c.base(c.r) + v.paths["state"]
		a["hosted-json-state-upload-url"] = c.base(c.r) + v.paths["json"]
	} else {
		a["status"], a["hosted-state-download-url"] = "finalized", c.base(c.r)+v.paths["state"]
		a["hosted-json-state-upload-url"] = c.base(c.r) + v.paths["json"]
	}
	if c.has(NoStateAddress) {
		delete(a, "hosted-state-download-url")
	}
	r := object{"workspace": one("workspaces", v.workspace.id), "run": one("runs", ""), "outputs": many("state-version-outputs", v.outputIDs())}
	if v.run != nil {
		r["run"] = one("runs", v.run.id)
	}
	return resource("state-versions", v.id, a, r)
}

func (s *Server) routeStates() {
	const of = "/api/v2/workspaces/{id}"
	s.mux.HandleFunc("GET "+of+"/current-state-version", s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		if v := w.state(); v != nil && !c.by.rights.NoState {
			return answer{data: c.showState(v)}, nil
		}
		return c.missing()
	}))
	s.mux.HandleFunc("POST "+of+"/state-versions", s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		if w.locker == "" && w.current == nil {
			return conflict("the workspace must be locked to change its state")
		}
		content, err := base64.StdEncoding.DecodeString(in.text("state"))
		if err != nil {
			return invalid("State is not encoded in base64")
		}
		if len(content) == 0 {
			content = nil
		}
		v := c.addState(w, content, nil)
		if serial, ok := in.Attributes["serial"].(float64); ok {
			v.serial = int(serial)
		}
		return answer{status: http.StatusCreated, data: c.showState(v)}, nil
	}))
	s.mux.HandleFunc("GET /api/v2/state-versions/{id}", s.handle(func(c *call) (answer, error) {
		if v := c.states[c.id()]; v != nil {
			return answer{data: c.showState(v)}, nil
		}
		return c.missing()
	}, false))
	s.mux.HandleFunc("GET "+of+"/current-state-version-outputs", s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		if v := w.state(); v != nil {
			return answer{data: v.outputs()}, nil
		}
		return c.missing()
	}))
	s.mux.HandleFunc("GET /api/v2/state-versions/{id}/outputs", s.handle(func(c *call) (answer, error) {
		if v := c.states[c.id()]; v != nil {
			return answer{data: v.outputs()}, nil
		}
		return c.missing()
	}, false))
	s.mux.HandleFunc("GET /api/v2/state-versions", s.handle(func(c *call) (answer, error) {
		q := c.r.URL.Query()
		all := []object{}
		if w := c.named(q.Get("filter[organization][name]"), q.Get("filter[workspace][name]")); w != nil {
			for _, v := range slices.Backward(w.states) {
				all = append(all, c.showState(v))
			}
		}
		return answer{data: all}, nil
	}, false))
}
