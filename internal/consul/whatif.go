package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Supposed is what tasks read of Consul, and what they would read under a what-if.
// Everything is read once, also if many tasks share it.
type Supposed struct {
	// Unmatched says in words what of the what-if concerns nothing that a task reads, such
	// as the name of a node on which there is nothing.
	Unmatched []string

	now, then *reading
	tasks     []supposedTask
}

type supposedTask struct {
	parts     taskParts
	concerned bool
	err       error
}

// Suppose reads everything that the tasks read, once, and applies a what-if to it. The
// error is about all tasks; what cannot be read is an error of the tasks that need it.
func (c *Client) Suppose(ctx context.Context, tasks []*config.Task, w condition.WhatIf) (*Supposed, error) {
	sup, err := condition.NewSupposition(w)
	if err != nil {
		return nil, err
	}
	s := &Supposed{now: newReading(c), tasks: make([]supposedTask, len(tasks))}
	s.now.whole = true
	var all []condition.Selection
	for i, t := range tasks {
		s.tasks[i].parts = partsOf(t)
		all = append(all, s.tasks[i].parts.all...)
	}
	s.now.load(ctx, all)
	if sup.NeedsHome() {
		if sup.Home, err = c.home(ctx, s.now); err != nil {
			return nil, err
		}
	}
	s.then = s.now.under(ctx, sup, all)
	if err := sup.Err(); err != nil {
		return nil, err
	}
	for i := range s.tasks {
		t := &s.tasks[i]
		var now, then string
		if now, t.err = s.now.digest(t.parts.task); t.err == nil {
			then, t.err = s.then.digest(t.parts.task)
		}
		t.concerned = t.err == nil && now != then
	}
	s.Unmatched = sup.Unmatched()
	return s, nil
}

// maxUnreadable is how many bytes a question may have of errors, as far as it is about at most 1,000 tasks.
const maxUnreadable = 150_000

// Sort notes in a question which of the tasks are not concerned, and which cannot be read. It returns
// the others, for which prepare is called with their place if it is set: its error says that a task
// cannot be read either.
func (s *Supposed) Sort(q *state.Question, tasks []*config.Task, prepare func(i int) error) (concerned []*config.Task) {
	q.Unmatched = s.Unmatched
	// If Consul cannot be read, all tasks have an error, and the record has to fit into each store.
	most := max(state.MaxText/20, min(state.MaxText, maxUnreadable/max(1, len(tasks))))
	for i, t := range tasks {
		is, err := s.Concerned(i)
		if err == nil && is && prepare != nil {
			err = prepare(i)
		}
		switch {
		case err != nil:
			q.Unreadable = append(q.Unreadable, state.UnreadTask{Task: t.Name, Error: state.CutTo(err.Error(), most)})
		case is:
			concerned = append(concerned, t)
		default:
			q.NotConcerned++
		}
	}
	return concerned
}

// Concerned reports whether the data of a task, by its place among the tasks, differs
// under the what-if. The error is why that is not known.
func (s *Supposed) Concerned(i int) (bool, error) { return s.tasks[i].concerned, s.tasks[i].err }

// Snapshot returns what a task renders under the what-if. Its Visibility is that of what
// was read: it proves what is there, and that the rest is not hidden.
func (s *Supposed) Snapshot(i int) (*Snapshot, error) {
	t := s.tasks[i]
	if t.err != nil {
		return nil, t.err
	}
	now, err := s.now.visibility(t.parts.all)
	if err != nil {
		return nil, err
	}
	then, err := s.then.snapshot(t.parts)
	if err != nil {
		return nil, err
	}
	then.Visibility = now
	return then, nil
}

// Now returns what the task renders without the what-if.
func (s *Supposed) Now(i int) (*Snapshot, error) {
	if err := s.tasks[i].err; err != nil {
		return nil, err
	}
	return s.now.snapshot(s.tasks[i].parts)
}

// digest identifies everything that the task reads.
func (r *reading) digest(t *config.Task) (string, error) {
	var inputs []Input
	for _, q := range InputQueries(t) {
		o, err := r.observe(q.parts)
		if err != nil {
			return "", err
		}
		inputs = append(inputs, Input{q.Kind, q.Triggers, o})
	}
	return DigestOf(inputs), nil
}

// under returns the reading as it would be under a what-if. It reads what is only needed
// to know that.
func (r *reading) under(ctx context.Context, sup *condition.Supposition, parts []condition.Selection) *reading {
	then := newReading(r.client)
	then.whole, then.confirmed = true, r.confirmed
	suppose := func() {
		for v, l := range r.loaded {
			if _, done := then.loaded[v]; !done {
				then.loaded[v] = supposed(sup, v, l)
			}
		}
	}
	for v, needs := range r.details(sup, parts) {
		r.loadViews(ctx, needs)
		for _, need := range needs {
			if l := r.loaded[need]; l.err != nil {
				then.loaded[v] = loaded{err: l.err}
			}
		}
	}
	sup.Details = func(v condition.View) (condition.Contents, bool) {
		l, ok := r.loaded[v]
		return l.contents, ok && l.err == nil && l.contents != nil
	}
	suppose()
	// A service may be chosen that was not there.
	var more []condition.View
	for _, p := range parts {
		if _, chooses := p.(condition.Chooser); chooses {
			views, _ := then.viewsOf(p) // each returns the error again
			more = append(more, views...)
		}
	}
	r.loadViews(ctx, more)
	suppose()
	return then
}

// details are the views that are only needed to know what others would show.
func (r *reading) details(sup *condition.Supposition, parts []condition.Selection) map[condition.View][]condition.View {
	needs := map[condition.View][]condition.View{}
	for _, p := range parts {
		d, ok := p.(condition.Detailed)
		if !ok {
			continue
		}
		for _, v := range p.Views() {
			if l := r.loaded[v]; l.err == nil {
				needs[v] = append(needs[v], d.Details(sup, l.contents)...)
			}
		}
	}
	return needs
}

// supposed is what a view would show.
func supposed(sup *condition.Supposition, v condition.View, l loaded) loaded {
	if l.err != nil {
		return l
	}
	l.contents, l.elements = v.Suppose(sup, l.contents), nil
	if l.contents != nil {
		l.elements = l.contents.Elements(v)
	}
	return l
}

// home is the datacenter of the agent.
func (c *Client) home(ctx context.Context, r *reading) (string, error) {
	for v, l := range r.loaded {
		if name := condition.HomeOf(v, l.contents); name != "" {
			return name, nil
		}
	}
	var self struct{ Config struct{ Datacenter string } }
	_, err := c.get(ctx, request{Request: condition.Request{Act: "read the agent's datacenter", Needs: "agent:read on the agent", Path: "/v1/agent/self"}},
		func(d *json.Decoder) error { return d.Decode(&self) })
	if err == nil && self.Config.Datacenter != "" {
		return self.Config.Datacenter, nil
	}
	var nodes []struct{ Datacenter string }
	_, other := c.get(ctx, request{Request: condition.Request{Act: "read the nodes", Needs: "node:read", Path: "/v1/catalog/nodes"}},
		func(d *json.Decoder) error { return d.Decode(&nodes) })
	if other == nil && len(nodes) > 0 {
		return nodes[0].Datacenter, nil
	}
	return "", fmt.Errorf("find out in which datacenter the agent is: %w", errors.Join(err, other))
}
