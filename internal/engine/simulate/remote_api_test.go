package simulate

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
)

// wire is HCP Terraform as a process reaches it.
type wire struct{ *process }

var _ hcp.API = wire{}

// call makes a request. The effect is late if who requested it may have been given up.
func call[T any](ctx context.Context, w wire, label string, effect func(c *cloud, late bool) (T, error)) (T, error) {
	asked, freezes := time.Now(), w.freezeCount()
	got, err := ask(ctx, w.process, hcpServer, label, func() (T, error) {
		c := &w.cloud
		if c.forbids {
			w.note("    the token may not do that")
			var none T
			return none, hcp.ErrNotFound
		}
		return effect(c, w.belated || w.freezes != freezes || time.Since(asked) > localLease/2)
	})
	if errors.Is(err, errLost) {
		err = fmt.Errorf("%w: %w", hcp.ErrUnknown, err)
	}
	return got, err
}

// Workspace implements hcp.API.
func (w wire) Workspace(ctx context.Context, _, name string) (hcp.Workspace, error) {
	return call(ctx, w, "find workspace "+name, func(c *cloud, _ bool) (hcp.Workspace, error) { return w.show(c.of(name)) })
}

// WorkspaceByID implements hcp.API.
func (w wire) WorkspaceByID(ctx context.Context, id string) (hcp.Workspace, error) {
	return call(ctx, w, "read workspace "+id, func(c *cloud, _ bool) (hcp.Workspace, error) { return w.show(c.workspace(id)) })
}

func (w wire) show(ws *workspace) (hcp.Workspace, error) {
	if ws == nil {
		return hcp.Workspace{}, hcp.ErrNotFound
	}
	shown := ws.Workspace
	if shown.Tags = slices.Clone(ws.Tags); !w.cloud.silent && !w.cloud.zero {
		shown.Resources = w.managed(ws.task())
	}
	shown.StateReadable = !w.cloud.blind
	shown.Locked, shown.LockedBy = ws.lockedBy != "" || ws.current != nil, ws.lockedBy
	return shown, nil
}

// CreateWorkspace implements hcp.API.
func (w wire) CreateWorkspace(ctx context.Context, _ string, s hcp.Settings) (hcp.Workspace, error) {
	return call(ctx, w, "create workspace "+*s.Name, func(c *cloud, _ bool) (hcp.Workspace, error) {
		if c.of(*s.Name) != nil {
			return hcp.Workspace{}, hcp.ErrTaken
		}
		ws := c.add(w.world, *s.Name)
		ws.ours = true
		ws.set(s)
		ws.Tags = slices.Clone(s.Tags)
		return w.show(ws)
	})
}

// UpdateWorkspace implements hcp.API.
func (w wire) UpdateWorkspace(ctx context.Context, id string, s hcp.Settings) (hcp.Workspace, error) {
	return call(ctx, w, "change workspace "+id, func(c *cloud, _ bool) (hcp.Workspace, error) {
		ws := c.workspace(id)
		if ws != nil {
			ws.set(s)
		}
		return w.show(ws)
	})
}

// set changes a workspace.
func (ws *workspace) set(s hcp.Settings) {
	for to, from := range map[*string]*string{&ws.Name: s.Name, &ws.ExecutionMode: s.ExecutionMode,
		&ws.AgentPool: s.AgentPool, &ws.TerraformVersion: s.TerraformVersion, &ws.SourceName: s.SourceName} {
		if from != nil {
			*to = *from
		}
	}
	if s.AutoApply != nil {
		ws.AutoApply = *s.AutoApply
	}
}

// AddTags implements hcp.API.
func (w wire) AddTags(ctx context.Context, id string, tags []string) error {
	return w.do(ctx, "tag workspace "+id, func(c *cloud, _ bool) error {
		ws := c.workspace(id)
		if ws == nil {
			return hcp.ErrNotFound
		}
		for _, tag := range tags {
			if !slices.Contains(ws.Tags, tag) {
				ws.Tags = append(ws.Tags, tag)
			}
		}
		return nil
	})
}

// do makes a request without a result.
func (w wire) do(ctx context.Context, label string, effect func(c *cloud, late bool) error) error {
	_, err := call(ctx, w, label, func(c *cloud, late bool) (any, error) { return nil, effect(c, late) })
	return err
}

// DeleteWorkspace implements hcp.API.
func (w wire) DeleteWorkspace(ctx context.Context, id string) error {
	return w.do(ctx, "delete workspace "+id, func(c *cloud, _ bool) error {
		ws := c.workspace(id)
		switch {
		case ws == nil:
			return hcp.ErrNotFound
		case w.managed(ws.task()) > 0 || ws.current != nil || ws.lockedBy != "":
			return hcp.ErrConflict
		}
		w.judge.deletes(w.process, ws)
		ws.gone = true
		return nil
	})
}

// Variables implements hcp.API.
func (w wire) Variables(ctx context.Context, id string) ([]hcp.Variable, error) {
	return call(ctx, w, "read the variables of "+id, func(c *cloud, _ bool) ([]hcp.Variable, error) {
		ws := c.workspace(id)
		if ws == nil {
			return nil, hcp.ErrNotFound
		}
		return slices.Clone(ws.variables), nil
	})
}

// AllVariables implements hcp.API: there are no variable sets.
func (w wire) AllVariables(context.Context, string) ([]hcp.Variable, error) { return nil, nil }

// CreateVariable implements hcp.API.
func (w wire) CreateVariable(ctx context.Context, id string, v hcp.Variable) error {
	return w.do(ctx, "create variable "+v.Key+" of "+id, func(c *cloud, _ bool) error {
		ws := c.workspace(id)
		switch {
		case ws == nil:
			return hcp.ErrNotFound
		case slices.ContainsFunc(ws.variables, func(other hcp.Variable) bool { return other.Key == v.Key && other.Env == v.Env }):
			return hcp.ErrTaken
		}
		v.ID = c.id("var")
		ws.variables = append(ws.variables, v)
		return nil
	})
}

// SetVariableValue implements hcp.API.
func (w wire) SetVariableValue(ctx context.Context, id, variable, value string) error {
	return w.do(ctx, "set the value of variable "+variable, func(c *cloud, _ bool) error {
		ws := c.workspace(id)
		if ws == nil {
			return hcp.ErrNotFound
		}
		at := slices.IndexFunc(ws.variables, func(v hcp.Variable) bool { return v.ID == variable })
		if at < 0 {
			return hcp.ErrNotFound
		}
		ws.variables[at].Value = value
		return nil
	})
}

// DeleteVariable implements hcp.API.
func (w wire) DeleteVariable(ctx context.Context, id, variable string) error {
	return w.do(ctx, "delete variable "+variable, func(c *cloud, _ bool) error {
		ws := c.workspace(id)
		if ws == nil {
			return hcp.ErrNotFound
		}
		ws.variables = slices.DeleteFunc(ws.variables, func(v hcp.Variable) bool { return v.ID == variable })
		return nil
	})
}

// CreateVersion implements hcp.API.
func (w wire) CreateVersion(ctx context.Context, id string, speculative bool) (hcp.Version, error) {
	return call(ctx, w, "create a version in "+id, func(c *cloud, _ bool) (hcp.Version, error) {
		if c.workspace(id) == nil {
			return hcp.Version{}, hcp.ErrNotFound
		}
		up := &upload{id: c.id("cv"), workspace: id, speculative: speculative}
		c.uploads[up.id] = up
		return up.show(), nil
	})
}

func (u *upload) show() hcp.Version {
	status := "pending"
	if u.uploaded {
		status = "uploaded"
	}
	return hcp.Version{ID: u.id, Status: status, UploadURL: "https://archivist.example/" + u.id}
}

// Version implements hcp.API.
func (w wire) Version(ctx context.Context, id string) (hcp.Version, error) {
	return call(ctx, w, "read version "+id, func(c *cloud, _ bool) (hcp.Version, error) {
		up := c.uploads[id]
		if up == nil || c.workspace(up.workspace) == nil {
			return hcp.Version{}, hcp.ErrNotFound
		}
		if up.arrived && !w.chance(300) {
			up.uploaded = true
		}
		return up.show(), nil
	})
}

// values finds the digest in the values of a module, which stands for the data.
var (
	sourceOf = regexp.MustCompile(`source\s*=\s*"([^"]+)"`)
	digestOf = regexp.MustCompile(`"?data"?\s*[=:]\s*\[\s*"([^"]+)"`)
)

// Upload implements hcp.API.
func (w wire) Upload(ctx context.Context, v hcp.Version, archive []byte) error {
	files, err := unpacked(archive)
	if err != nil {
		return err
	}
	return w.do(ctx, "upload "+v.ID, func(c *cloud, late bool) error {
		up := c.uploads[v.ID]
		if up == nil {
			return hcp.ErrNotFound
		}
		up.arrived = true
		for name, text := range files {
			if path.Ext(name) == ".tf" {
				if found := sourceOf.FindStringSubmatch(moduleBlock(text)); found != nil {
					up.module = found[1]
				}
			}
			if found := digestOf.FindStringSubmatch(text); found != nil && strings.HasSuffix(name, ".auto.tfvars") {
				up.digest = found[1]
			}
		}
		w.note("    it has %s with %s", up.module, up.digest)
		w.judge.uploads(w.process, ctx, up, late)
		return nil
	})
}

// moduleBlock is what follows the beginning of a block that calls a module.
func moduleBlock(text string) string {
	_, rest, _ := strings.Cut(text, "\nmodule ")
	return rest
}

// unpacked returns the files in an archive.
func unpacked(archive []byte) (map[string]string, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for all := tar.NewReader(zipped); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(all)
		if err != nil {
			return nil, err
		}
		files[path.Clean(header.Name)] = string(text)
	}
}

// CreateRun implements hcp.API.
func (w wire) CreateRun(ctx context.Context, n hcp.NewRun) (hcp.Run, error) {
	return call(ctx, w, "create a run of "+n.Version, func(c *cloud, late bool) (hcp.Run, error) {
		ws, up := c.workspace(n.Workspace), c.uploads[n.Version]
		switch {
		case ws == nil || up == nil:
			return hcp.Run{}, hcp.ErrNotFound
		case !up.uploaded:
			return hcp.Run{}, hcp.ErrTaken
		}
		r := c.queue(w.world, ws, up)
		r.by, r.late, r.message, r.destroys = w.process, late, n.Message, n.Destroy
		r.planOnly = n.PlanOnly || up.speculative
		r.run, _ = ctx.Value(runKey{}).(string)
		w.judge.queues(w.world, r)
		return w.showRun(r), nil
	})
}

// Run implements hcp.API.
func (w wire) Run(ctx context.Context, id string) (hcp.Run, error) {
	return call(ctx, w, "read run "+id, func(c *cloud, _ bool) (hcp.Run, error) {
		r := c.run(id)
		if r == nil || c.workspace(r.workspace) == nil {
			return hcp.Run{}, hcp.ErrNotFound
		}
		return w.showRun(r), nil
	})
}

// Runs implements hcp.API.
func (w wire) Runs(ctx context.Context, id string, planOnly bool) ([]hcp.Run, error) {
	return call(ctx, w, "list the runs of "+id, func(c *cloud, _ bool) ([]hcp.Run, error) {
		if c.workspace(id) == nil {
			return nil, hcp.ErrNotFound
		}
		return w.list(func(r *remoteRun) bool { return r.workspace == id && r.planOnly == planOnly }), nil
	})
}

// ActiveRuns implements hcp.API.
func (w wire) ActiveRuns(ctx context.Context, _ string, names []string) ([]hcp.Run, error) {
	return call(ctx, w, "list active runs of "+strings.Join(names, ", "), func(c *cloud, _ bool) ([]hcp.Run, error) {
		return w.list(func(r *remoteRun) bool {
			ws := c.workspace(r.workspace)
			return ws != nil && !r.final() && slices.Contains(names, ws.Name)
		}), nil
	})
}

// list returns the runs that are meant, the newest first.
func (w wire) list(is func(*remoteRun) bool) []hcp.Run {
	var all []hcp.Run
	for _, r := range slices.Backward(w.cloud.runs) {
		if is(r) && len(all) < 100 {
			all = append(all, w.showRun(r))
		}
	}
	return all
}

func (w wire) showRun(r *remoteRun) hcp.Run {
	shown := hcp.Run{ID: r.id, Status: r.status, Message: r.message, Workspace: r.workspace, Version: r.version, PlanOnly: r.planOnly, Destroy: r.destroys,
		HasChanges: r.planned && r.plan.changes, Confirmable: r.confirmable(), Discardable: slices.Contains(discardable, r.status),
		Cancelable: slices.Contains(cancelable, r.status)}
	if ws := w.cloud.workspace(r.workspace); ws != nil {
		shown.Name = ws.Name
	}
	shown.Plan = hcp.Phase{ID: "plan-" + r.id, Status: "pending", LogURL: "https://archivist.example/plan/" + r.id}
	shown.Apply = hcp.Phase{ID: "apply-" + r.id, Status: "pending", LogURL: "https://archivist.example/apply/" + r.id}
	if r.planned {
		shown.Plan.Status = "finished"
		if shown.Plan.Counted = !w.cloud.silent; r.plan.changes && !w.cloud.silent {
			shown.Plan.Change, shown.Plan.Destroy = 1, r.plan.destroys
		}
	}
	switch {
	case r.status == wasApplied && w.cloud.silent:
		shown.Apply.Status = "finished"
	case r.status == wasApplied:
		shown.Apply.Status, shown.Apply.Counted, shown.Apply.Change, shown.Apply.Destroy = "finished", true, 1, r.plan.destroys
	case r.began && r.final():
		shown.Apply.Status = r.status // errored or canceled
	}
	return shown
}

// Act implements hcp.API.
func (w wire) Act(ctx context.Context, id string, a hcp.Action, comment string) error {
	return w.do(ctx, string(a)+" run "+id, func(c *cloud, late bool) error {
		r := c.run(id)
		if r == nil || c.workspace(r.workspace) == nil {
			return hcp.ErrNotFound
		}
		if !c.may(r, a) {
			w.note("    conflict: it is %s", r.status)
			return hcp.ErrConflict
		}
		w.judge.acts(ctx, w.process, r, a, comment, late)
		c.act(w.world, r, a, us, comment)
		return nil
	})
}

// Events implements hcp.API.
func (w wire) Events(ctx context.Context, id string) ([]hcp.Event, error) {
	return call(ctx, w, "read the events of run "+id, func(c *cloud, _ bool) ([]hcp.Event, error) {
		r := c.run(id)
		if r == nil {
			return nil, hcp.ErrNotFound
		}
		return slices.Clone(r.events), nil
	})
}

// State implements hcp.API. No module has check blocks.
func (w wire) State(ctx context.Context, id string) (hcp.State, error) {
	return call(ctx, w, "read the state of "+id, func(c *cloud, _ bool) (hcp.State, error) {
		ws := c.workspace(id)
		if ws == nil || c.blind {
			return hcp.State{}, hcp.ErrNotFound
		}
		type object = map[string]any
		content, err := json.Marshal(object{"resources": []object{{"mode": "managed", "type": "null_resource", "name": "it", "instances": make([]object, w.managed(ws.task()))}}})
		return hcp.State{Run: "another", Content: content}, err
	})
}

// PlanJSON implements hcp.API.
func (w wire) PlanJSON(ctx context.Context, plan string) ([]byte, error) {
	return call(ctx, w, "read "+plan, func(c *cloud, _ bool) ([]byte, error) {
		r := c.run(strings.TrimPrefix(plan, "plan-"))
		if r == nil || !r.planned || c.blind {
			return nil, hcp.ErrNotFound
		}
		return document(r, w.managed(r.task))
	})
}

// document is a plan as Terraform prints it, with so many resources before.
func document(r *remoteRun, managed int) ([]byte, error) {
	type object = map[string]any
	changes, before := []object{}, make([]object, managed)
	for i := range before {
		before[i] = object{"address": fmt.Sprintf("module.it.null_resource.was[%d]", i), "mode": "managed", "type": "null_resource", "name": "was", "index": i, "values": object{}}
	}
	add := func(address, action string, before, after any) {
		changes = append(changes, object{"address": address, "mode": "managed", "type": "null_resource", "name": "it", "provider_name": "registry.terraform.io/hashicorp/null",
			"change": object{"actions": []string{action}, "before": before, "after": after, "after_unknown": object{}, "before_sensitive": false, "after_sensitive": false}})
	}
	if r.plan.changes {
		add("module.it.null_resource.it", "update", object{"triggers": object{"is": ""}}, object{"triggers": object{"is": r.plan.plan}})
		for i := range r.plan.destroys {
			add(fmt.Sprintf("module.it.null_resource.gone[%d]", i), "delete", object{"id": fmt.Sprint(i)}, nil)
		}
	}
	return json.Marshal(object{"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": changes, "applyable": r.plan.changes, "complete": true,
		"prior_state": object{"format_version": "1.0", "terraform_version": "1.11.4", "values": object{"root_module": object{"resources": before}}}})
}

// Log implements hcp.API.
func (w wire) Log(ctx context.Context, url string) ([]byte, error) {
	return call(ctx, w, "read the log "+path.Base(url), func(*cloud, bool) ([]byte, error) { return []byte("\x02Terraform has run\n\x03"), nil })
}

// Organization implements hcp.API.
func (wire) Organization(context.Context, string) error { return nil }

// AgentPools implements hcp.API.
func (wire) AgentPools(context.Context, string) ([]hcp.AgentPool, error) { return nil, nil }

// Notifications implements hcp.API.
func (wire) Notifications(context.Context, string) ([]hcp.Notification, error) { return nil, nil }

// DeleteNotification implements hcp.API.
func (wire) DeleteNotification(context.Context, string) error { return nil }

// SetNotification implements hcp.API.
func (wire) SetNotification(context.Context, string, hcp.Notification) error { return nil }
