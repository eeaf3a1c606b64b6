package apiview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Verdict returns what would happen to a task as the API shows it; nil if that is not known.
func Verdict(v *state.Verdict) *apispec.Verdict {
	if v == nil {
		return nil
	}
	shown := &apispec.Verdict{Outcome: apispec.WouldBe(v.Outcome), Text: v.Text}
	if len(v.Causes) > 0 {
		shown.Causes = new(Causes(state.Wait{Causes: v.Causes}))
	}
	return shown
}

// Words are an outcome in words, such as "would be held".
func Words(o state.WouldBe) string {
	for _, w := range state.WouldBes {
		if w.Outcome == o {
			return w.Words
		}
	}
	return "would be " + string(o)
}

// Question returns a what-if with its runs, as far as they are kept, as the API shows it.
func Question(q state.Question, runs map[string]state.Run, now time.Time) apispec.WhatIf {
	shown := apispec.WhatIf{ID: Optional(q.ID), Supposed: q.Supposed, By: Optional(q.By), Created: Moment(q.Created), Tasks: q.Tasks, NotConcerned: q.NotConcerned,
		Ended: true, Results: []apispec.WhatIfResult{}}
	if request := new(apispec.WhatIfRequest); json.Unmarshal(q.Request, request) == nil {
		shown.Request = request
	}
	if len(q.Unmatched) > 0 {
		shown.Unmatched = &q.Unmatched
	}
	places := Places(q)
	for _, t := range q.Unreadable {
		shown.Results = append(shown.Results, apispec.WhatIfResult{Task: t.Task, State: apispec.WhatIfResultStateFailed, Error: &t.Error})
	}
	would, alive := map[string]*state.Verdict{}, lastSign(q, runs)
	for _, answering := range q.Runs {
		if run, kept := runs[answering.Run]; kept && run.State.Ended() && run.WhatIf != nil && run.WhatIf.Verdict != nil {
			would[answering.Task] = run.WhatIf.Verdict
		} else if !kept || run.State.Ended() || lostPlan(run, alive, now) != "" {
			places = append(places, state.Place{Tasks: []string{answering.Task}, Keeps: "it is not known what would happen to it"})
		}
	}
	InOrder(would, places)
	for _, answering := range q.Runs {
		run, kept := runs[answering.Run]
		result := apispec.WhatIfResult{Task: answering.Task, Run: Optional(answering.Run), RunURL: Optional(RunURL(answering.Task, answering.Run))}
		switch {
		case !kept:
			result.State, result.Error = apispec.WhatIfResultStateFailed, Optional("the run is not kept any more")
		case lostPlan(run, alive, now) != "":
			result.State, result.Error = apispec.WhatIfResultStateLost, Optional("the plan is lost: "+lostPlan(run, alive, now)+". Ask again")
		case !run.State.Ended():
			result.State, shown.Ended = apispec.WhatIfResultStatePlanning, false
		default:
			result.State = apispec.WhatIfResultStatePlanned
			if run.WhatIf != nil && run.WhatIf.Verdict != nil && run.WhatIf.Verdict.Outcome == state.WouldNotConcern {
				shown.NotConcerned++
				continue
			}
			result.Verdict = Verdict(would[answering.Task])
			if run.State != state.RunSucceeded {
				result.State, result.Error = apispec.WhatIfResultStateFailed, Optional(cmp.Or(run.Error, "the run is "+string(run.State)))
			}
			result.Changes = LostFirst(run.Changes)
		}
		shown.Results = append(shown.Results, result)
	}
	if len(q.Runs) > 0 && shown.NotConcerned == q.Tasks { // the runs do not say which part concerns nothing
		shown.Unmatched = &[]string{"no task reads anything that would differ"}
	}
	return shown
}

// planPatience is how long the process that makes the plans of a what-if may do so without a sign of
// life, also while others wait for room. A function in AWS lives as long. claimGrace is how far clocks
// are apart at most.
const (
	planPatience = 15 * time.Minute
	claimGrace   = time.Minute
)

// lastSign is the latest time at which the process that makes the plans was alive.
func lastSign(q state.Question, runs map[string]state.Run) time.Time {
	last := q.Created
	for _, run := range runs {
		for _, t := range []time.Time{run.Started, run.Ended, run.Expires} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last
}

// lostPlan says why a plan of a what-if is not made any more; "" if it may be. Nobody ends such a run,
// because no task waits for it. If its process answers after all, its plan is shown.
func lostPlan(run state.Run, alive, now time.Time) string {
	switch {
	case run.State == state.RunRunning && !run.Expires.IsZero() && now.After(run.Expires.Add(claimGrace)):
		return "its process has ended, or cannot write to the store"
	case run.State == state.RunIntended && now.After(alive.Add(planPatience)):
		return fmt.Sprintf("no process has begun it, and those that plan have shown no sign of life for %s", now.Sub(alive).Round(time.Minute))
	}
	return ""
}

// LostFirst returns changes as the API shows them, with what is destroyed or replaced first.
func LostFirst(c *state.Changes) *apispec.Changes {
	shown := Changes(c)
	if shown != nil && shown.Resources != nil {
		urgent := []string{"delete", "replace"}
		slices.SortStableFunc(*shown.Resources, func(a, b apispec.Resource) int {
			order := list.Map([]apispec.Resource{a, b}, func(r apispec.Resource) int {
				if i := slices.Index(urgent, r.Action); i >= 0 {
					return i
				}
				return len(urgent)
			})
			return order[0] - order[1]
		})
	}
	return shown
}

// Lost are the resources that a plan destroys or replaces, as far as they are named.
func Lost(r apispec.WhatIfResult) (lost []string) {
	if r.Changes == nil {
		return nil
	}
	words := map[string]string{"delete": "destroys ", "replace": "replaces "}
	for _, resource := range apispec.Deref(r.Changes.Resources) {
		if word, ok := words[resource.Action]; ok {
			lost = append(lost, word+resource.Address)
		}
	}
	if more := r.Changes.Destroy - len(lost); more > 0 && len(lost) > 0 {
		lost = append(lost, fmt.Sprintf("and %d more", more))
	}
	return lost
}

// WhatIfSummary is one line about all tasks, such as "12 tasks: 1 would be held, 3 would be
// applied, 8 not concerned".
func WhatIfSummary(w apispec.WhatIf) string {
	counted := map[apispec.WouldBe]int{}
	planning, lost, unknown := 0, 0, 0
	for _, r := range w.Results {
		switch {
		case r.State == apispec.WhatIfResultStatePlanning:
			planning++
		case r.State == apispec.WhatIfResultStateLost:
			lost++
		case r.Verdict == nil:
			unknown++
		default:
			counted[r.Verdict.Outcome]++
		}
	}
	var parts []string
	add := func(n int, words string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words))
		}
	}
	add(planning, "being planned")
	add(lost, "lost")
	add(unknown, "cannot be planned")
	for _, would := range state.WouldBes {
		add(counted[apispec.WouldBe(would.Outcome)], would.Words)
	}
	add(w.NotConcerned, "not concerned")
	tasks := fmt.Sprintf("%d tasks", w.Tasks)
	if w.Tasks == 1 {
		tasks = "1 task"
	}
	if len(parts) == 0 {
		return tasks
	}
	return tasks + ": " + strings.Join(parts, ", ")
}
