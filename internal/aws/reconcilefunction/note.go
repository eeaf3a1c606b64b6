package reconcilefunction

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// notedFor is how long after its entry a request of functions/api comes, at most.
	notedFor = 5 * time.Minute
	// notedTasks is for how many tasks each gets an entry of its own, which shows it to those who may view the
	// task. More tasks have one entry.
	notedTasks = 10
)

// sender is who requests plans or runs, for people.
func sender(req invoke.Request) string {
	by := "an invocation of the function"
	if req.By != "" {
		by += " for " + state.Cut(req.By)
	}
	return by
}

// notePlans keeps in the audit record who requests plans.
func (i *invocation) notePlans(ctx context.Context, cfg *config.Config, req invoke.Request, names []string) error {
	detail := ""
	switch {
	case req.Draft != nil:
		var draft struct{ Name string }
		_ = json.Unmarshal(req.Draft, &draft) // the planner refuses it
		names, detail = []string{draft.Name}, "of a definition that the request has, and that is not in force"
	case req.Bundle != "":
		detail = fmt.Sprintf("of the bundle %.12s, which is not in force", req.Bundle)
	}
	if len(req.Tasks) == 0 && req.Draft == nil {
		names = nil
	}
	return i.note(ctx, cfg, req, audit.Plan, names, detail)
}

// note keeps in the audit record who requests plans or runs of tasks, or of all enabled ones if it names none,
// unless functions/api has done that. CloudTrail knows the sender of an invocation by its id.
func (i *invocation) note(ctx context.Context, cfg *config.Config, req invoke.Request, action audit.Action, tasks []string, detail string) error {
	if noted, err := i.noted(ctx, req, entriesOf(action, tasks, detail)); noted || err != nil {
		return err
	}
	by, a := "an invocation of the function", audit.Actor{Via: audit.Invoked}
	if req.By != "" {
		by = identity.Claimed(req.By)
	}
	if call, ok := lambdacontext.FromContext(ctx); ok {
		a.Request = call.AwsRequestID
	}
	if cfg != nil && cfg.AuditRetention > 0 {
		a.Keep = func(context.Context) time.Duration { return cfg.AuditRetention }
	}
	var changes []state.Change
	for _, e := range entriesOf(action, tasks, detail) {
		changes = append(changes, audit.Write(audit.With(ctx, a), e, by, i.now()))
	}
	if _, err := i.store.Apply(ctx, changes...); err != nil {
		return fmt.Errorf("write who requests it: %w", err)
	}
	return nil
}

// entriesOf are the entries of a request. A what-if has one, without a task: its answer is for those who may
// view all of them.
func entriesOf(action audit.Action, tasks []string, detail string) []audit.Entry {
	about := strings.Join(tasks, ", ")
	switch {
	case len(tasks) == 0:
		about = "all enabled tasks"
	case action != audit.WhatIf && len(tasks) <= notedTasks:
		all := make([]audit.Entry, len(tasks))
		for n, task := range tasks {
			all[n] = audit.Entry{Action: action, Task: task, Detail: detail}
		}
		return all
	}
	if action == audit.WhatIf && len(tasks) == 0 {
		return []audit.Entry{{Action: action, Detail: detail}}
	}
	return []audit.Entry{{Action: action, Detail: strings.TrimPrefix(detail+", for "+state.Cut(about), ", ")}}
}

// noted reports whether functions/api has written the entry of the request. An entry that somebody names is
// believed only if it is about the same and new: who may invoke the function cannot write to the record.
func (i *invocation) noted(ctx context.Context, req invoke.Request, would []audit.Entry) (bool, error) {
	if req.Noted == "" {
		return false, nil
	}
	e, err := audit.Read(ctx, i.store, req.Noted)
	if err != nil {
		return false, fmt.Errorf("read the entry %.60s of the audit record: %w", req.Noted, err)
	}
	same := len(would) == 1 && e.Action == would[0].Action && e.Task == would[0].Task && e.Detail == state.Line(would[0].Detail)
	return e.ID != "" && same && i.now().Sub(e.At).Abs() < notedFor, nil
}
