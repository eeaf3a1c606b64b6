package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// runPage is the page of one run.
type runPage struct {
	Run      apispec.Run `json:"run"`
	Timeline []moment    `json:"timeline"`
	OutputAt string      `json:"output"` // address of what Terraform printed
	Output   runOutput   `json:"-"`
	Plan     *planView   `json:"-"` // of a plan run; nil if there is none as data
}

// runOutput is what the page of a run shows of its output.
type runOutput struct {
	ID      string // of the element that keeps what is shown while the page is refreshed
	Live    bool
	Earlier bool    // the page begins in the middle
	First   *output // nil if the page has it already, or there is none
	Where   string  // address of the first part
}

// moment is one step of a run.
type moment struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	Said string    `json:"said,omitempty"` // by the person who did it
	Gap  string    `json:"gap,omitempty"`  // how long after the previous one, in words
	Tone tone      `json:"-"`
	Now  bool      `json:"now,omitempty"` // the run is at this step
}

func (p *pages) run(r *http.Request) (view, error) {
	name, id := r.PathValue("name"), r.PathValue("id")
	run, err := read(r.Context(), p.source, "run/"+name+"/"+id, func(ctx context.Context) (apispec.Run, error) { return p.source.Run(ctx, name, id) })
	if err != nil {
		return view{}, err
	}
	offset := offsetOf(r.URL.Query())
	page := runPage{Run: run, Timeline: timelineOf(run), OutputAt: runURL(name, id) + "/output" + jsonSuffix, Output: runOutput{
		ID: outputID(run), Live: live(run), Earlier: offset > 0,
		Where: runURL(name, id) + "/output" + fromOffset(offset),
	}}
	if run.State == apispec.RunStateIntended && !remotely(run) {
		page.Output.ID = "output-" + run.ID // Terraform has not begun
	} else if !asJSON(r) && r.Header.Get("HX-Request") != "true" {
		first, err := p.partOf(r.Context(), name, id, offset)
		if err != nil {
			first = output{Next: page.Output.Where, Every: "every 5s", Error: err.Error()}
		}
		page.Output.First = &first
	}
	planning := run.Kind == apispec.RunKindPlan
	if page.Plan, err = p.planOfRun(r.Context(), run); err != nil {
		return view{}, err
	}
	v := view{title: name + " " + short(id), template: "run", topic: name, data: page, still: run.Ended != nil}
	if planning { // no task changes when it ends
		v.again = "1s"
	}
	return v, nil
}

// planOfRun reads the plan of a plan run.
func (p *pages) planOfRun(ctx context.Context, run apispec.Run) (*planView, error) {
	if run.Kind != apispec.RunKindPlan || run.PlanDataURL == nil {
		return nil, nil
	}
	plan, err := read(ctx, p.source, "plan-data/"+run.Task+"/"+run.ID, func(ctx context.Context) (apispec.Plan, error) { return p.source.PlanData(ctx, run.Task, run.ID) })
	if apiclient.Missing(err) {
		return nil, nil
	}
	return planOf(apispec.WaitingPlan{ID: run.ID, Run: run.ID, Plan: &plan, Entries: run.Entries}), err
}

// remotely reports whether a run in another system does the work of the run.
func remotely(run apispec.Run) bool { return run.Remote != nil && run.Remote.ID != nil }

// outputID is the id of the element that shows the output of a run. A run that was resumed
// prints anew, unless it waited for another system.
func outputID(run apispec.Run) string {
	if remotely(run) {
		return "output-" + run.ID + "-remote"
	}
	return "output-" + run.ID + "-" + apispec.Deref(run.Launch)
}

// live reports whether the output of a run grows.
func live(run apispec.Run) bool {
	if run.State == apispec.RunStateWaiting && remotely(run) && run.Wait != nil {
		return run.Wait.For == apispec.WaitForRemote || run.Wait.For == apispec.WaitForRemotePlan
	}
	return run.State == apispec.RunStateRunning
}

// timelineOf are the steps that a run has made, and the one at which it is.
func timelineOf(r apispec.Run) []moment {
	var all []moment
	add := func(m moment, at *time.Time) {
		if at != nil {
			m.At = *at
			all = append(all, m)
		}
	}
	add(moment{Name: "Change seen"}, r.Seen)
	add(moment{Name: "Decided"}, &r.Created)
	add(moment{Name: "Launched"}, r.Launched)
	add(moment{Name: "Started"}, r.Started)
	if r.Kind != apispec.RunKindPlan || r.State != apispec.RunStateSucceeded { // its end says so
		add(moment{Name: "Planned"}, r.Planned)
	}
	add(moment{Name: "Approved", By: apispec.Deref(r.ApprovedBy), Said: apispec.Deref(r.ApprovedComment)}, r.Approved)
	add(moment{Name: "Launched again"}, r.Resumed)
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	switch {
	case r.Ended != nil:
		add(moment{Name: outcomeOf(r), Tone: outcomeTone(r)}, r.Ended)
	case r.Wait != nil:
		add(moment{Name: waitsFor(r.Wait.For), Tone: ask, Now: true}, &r.Wait.Since)
	default:
		name := "Terraform runs"
		if r.State == apispec.RunStateIntended {
			name = "Waits for a runner"
		}
		all = append(all, moment{Name: name, At: all[len(all)-1].At, Tone: busy, Now: true})
	}
	for n := 1; n < len(all); n++ {
		if gap := all[n].At.Sub(all[n-1].At); gap >= time.Millisecond {
			all[n].Gap = brief(gap) + " later"
		}
	}
	return all
}

// outcomeOf is how a run ended, in words.
func outcomeOf(r apispec.Run) string {
	if done, ok := map[apispec.RunKind]string{apispec.RunKindApply: "Applied", apispec.RunKindPlan: "Planned", apispec.RunKindDrift: "Checked",
		apispec.RunKindDestroy: "Destroyed"}[r.Kind]; ok && r.State == apispec.RunStateSucceeded {
		return done
	}
	state := string(r.State)
	return strings.ToUpper(state[:1]) + state[1:]
}

// waitsFor is what a run waits for, in words.
func waitsFor(what apispec.WaitFor) string {
	switch what {
	case apispec.WaitForApproval:
		return "Waits for approval"
	case apispec.WaitForWindow:
		return "Waits for its window"
	case apispec.WaitForRemote:
		return "Waits for another system"
	case apispec.WaitForRemotePlan:
		return "Waits for the plan of another system"
	}
	return fmt.Sprintf("Waits for %s", what)
}

// consoleLink is a link to the console of AWS, or to one of its partitions; "" if it leads
// anywhere else.
func consoleLink(link string) string {
	at, err := url.Parse(link)
	if err != nil || at.Scheme != "https" {
		return ""
	}
	for _, console := range []string{".console.aws.amazon.com", ".console.amazonaws.cn", ".console.amazonaws-us-gov.com"} {
		if strings.HasSuffix(at.Host, console) {
			return link
		}
	}
	return ""
}

// InAWS are the pages of the AWS console about the run.
func (p runPage) InAWS() (all []link) {
	if l := p.Run.Links; l != nil {
		for _, to := range []link{{"Log in CloudWatch", consoleLink(l.Logs)}, {"Task in ECS", consoleLink(l.Container)}, {"Output in S3", consoleLink(apispec.Deref(l.Output))}} {
			if to.URL != "" {
				all = append(all, to)
			}
		}
	}
	return all
}

// RemoteURL is the page of the run in another system; "" if there is none.
func (p runPage) RemoteURL() string { return remoteURL(&p.Run) }

// remoteURL is the page of a run in another system; "" if there is none.
func remoteURL(r *apispec.Run) string {
	if r == nil || r.Remote == nil {
		return ""
	}
	if at, err := url.Parse(r.Remote.URL); err != nil || at.Scheme != "https" && at.Scheme != "http" {
		return ""
	}
	return r.Remote.URL
}

// link is a link to another page.
type link struct{ Text, URL string }

// Took is how long the run worked; "" if it has not ended.
func (p runPage) Took() string { return took(&p.Run) }

// Whole is how long it took from the change in Consul, or else from the decision, to the
// end of the run; "" if it has not ended.
func (p runPage) Whole() string {
	from, r := "the decision", p.Run
	begun := r.Created
	if r.Seen != nil {
		from, begun = "the change", *r.Seen
	}
	if r.Ended == nil {
		return ""
	}
	return brief(r.Ended.Sub(begun)) + " from " + from + " to the end"
}

// Changes are what the run has changed, or would change, in words; "" if that is not
// known.
func (p runPage) Changes() string {
	c := p.Run.Changes
	switch {
	case c == nil:
		return ""
	case apispec.Deref(c.Unknown):
		return "it is not known how many"
	case c.Add+c.Change+c.Destroy == 0:
		return "none"
	case p.Run.State == apispec.RunStateSucceeded && (p.Run.Kind == apispec.RunKindApply || p.Run.Kind == apispec.RunKindDestroy):
		return fmt.Sprintf("%d added, %d changed, %d destroyed", c.Add, c.Change, c.Destroy)
	}
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", c.Add, c.Change, c.Destroy)
}

// Entries are how many entries came, went and changed in Consul, in words.
func (p runPage) Entries() string {
	e := p.Run.Entries
	var all []string
	for _, c := range []struct {
		n      int
		action apispec.EntryAction
	}{{e.Removed, apispec.EntryActionRemoved}, {e.Changed, apispec.EntryActionChanged}, {e.Added, apispec.EntryActionAdded}} {
		if c.n > 0 {
			all = append(all, fmt.Sprintf("%s %s", number(c.n), c.action))
		}
	}
	return strings.Join(all, ", ")
}

// Headline is the first line of the error, which says what happened.
func (p runPage) Headline() string {
	return firstLine(apispec.Deref(p.Run.Error))
}

// Details are the other lines of the error.
func (p runPage) Details() string {
	_, rest, _ := strings.Cut(apispec.Deref(p.Run.Error), "\n")
	return strings.Trim(rest, "\n")
}
