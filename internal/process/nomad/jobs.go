package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The answers of Nomad, with the fields that are used.

const (
	statusRunning = "running"
	statusDead    = "dead"
)

type job struct {
	ID         string
	Status     string // pending, running or dead
	Stop       bool   // somebody has stopped it
	SubmitTime int64
	Meta       map[string]string
	JobSummary struct{ Summary map[string]counts }
}

// counts are numbers of allocations.
type counts struct{ Queued, Starting, Running, Complete, Failed, Lost, Unknown int }

type allocation struct {
	ID           string
	NodeName     string
	ClientStatus string // pending, running, complete, failed, lost or unknown
	ModifyTime   int64
	TaskStates   map[string]struct{ Events []event }
}

type event struct {
	Type           string
	Time           int64
	FailsTask      bool
	DisplayMessage string
}

type evaluation struct {
	Status         string
	CreateIndex    uint64
	FailedTGAllocs map[string]metric
}

// metric says why an allocation could not be placed.
type metric struct {
	NodesEvaluated                         int
	ConstraintFiltered, DimensionExhausted map[string]int
	QuotaExhausted                         []string
}

// list returns dispatched jobs, and the index of the answer.
func (l *Launcher) list(ctx context.Context, query url.Values) (jobs []job, index string, err error) {
	query.Set("prefix", l.client.Job+"/dispatch-")
	index, err = l.client.call(ctx, http.MethodGet, "jobs", query, nil, &jobs)
	if err != nil {
		return nil, "", l.client.classify("list the jobs that were dispatched from Nomad job "+l.client.Job, err)
	}
	return jobs, index, nil
}

// allocations returns the allocations of a job, the latest last.
func (l *Launcher) allocations(ctx context.Context, job string) ([]allocation, error) {
	var all []allocation
	if _, err := l.client.call(ctx, http.MethodGet, "job/"+url.PathEscape(job)+"/allocations", url.Values{}, nil, &all); err != nil {
		return nil, l.client.classify("list the allocations of Nomad job "+job, err)
	}
	slices.SortFunc(all, func(a, b allocation) int { return cmp.Compare(a.ModifyTime, b.ModifyTime) })
	return all, nil
}

// blocked returns why no client of Nomad takes a job; "" if Nomad is about to place it.
func (l *Launcher) blocked(ctx context.Context, job string) (string, error) {
	var all []evaluation
	if _, err := l.client.call(ctx, http.MethodGet, "job/"+url.PathEscape(job)+"/evaluations", url.Values{}, nil, &all); err != nil {
		return "", l.client.classify("list the evaluations of Nomad job "+job, err)
	}
	if !slices.ContainsFunc(all, func(e evaluation) bool { return e.Status == "blocked" }) {
		return "", nil
	}
	slices.SortFunc(all, func(a, b evaluation) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	why := "Nomad does not say why"
	for _, e := range all {
		if len(e.FailedTGAllocs) > 0 {
			group := slices.Min(slices.Collect(maps.Keys(e.FailedTGAllocs)))
			why = e.FailedTGAllocs[group].String()
			break
		}
	}
	return fmt.Sprintf("no client of Nomad takes its job %s: %s", job, why), nil
}

func (m metric) String() string {
	if m.NodesEvaluated == 0 {
		return "no client is ready in its datacenters and node pool"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		parts = append(parts, fmt.Sprintf("%q excludes %d", name, m.ConstraintFiltered[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		parts = append(parts, fmt.Sprintf("%d lack %s", m.DimensionExhausted[name], name))
	}
	for _, quota := range m.QuotaExhausted {
		parts = append(parts, "the quota is used up: "+quota)
	}
	return fmt.Sprintf("of %d clients, %s", m.NodesEvaluated, cmp.Or(strings.Join(parts, ", "), "none has room"))
}

// count returns the numbers of all groups of the job.
func (j job) count() (all counts) {
	for _, n := range j.JobSummary.Summary {
		all.Running, all.Starting = all.Running+n.Running, all.Starting+n.Starting
		all.Lost, all.Unknown = all.Lost+n.Lost, all.Unknown+n.Unknown
	}
	return all
}

// why says why a job ended that left a run.
func (j job) why(ended []allocation) string {
	text := "its Nomad job " + j.ID + " ended before the run did"
	if j.Stop {
		text = "somebody stopped its Nomad job " + j.ID
	}
	if len(ended) == 0 {
		return text + "; it had no allocation"
	}
	return text + ": " + ended[len(ended)-1].String()
}

// String says how an allocation ended.
func (a allocation) String() string {
	return fmt.Sprintf("allocation %.8s on client %s is %s%s", a.ID, a.NodeName, a.ClientStatus, a.cause())
}

// unseen says that nobody sees the allocation any more.
func (a allocation) unseen(j job) string {
	return fmt.Sprintf("Nomad has lost the client %s with the allocation %.8s of its job %s", a.NodeName, a.ID, j.ID)
}

// cause returns the event that ended the allocation: the latest that failed a task or is the end of
// its process. That it is not started again is no cause.
func (a allocation) cause() string {
	var found event
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		for _, e := range a.TaskStates[name].Events {
			ends := e.Type == "Terminated" || e.FailsTask && e.Type != "Not Restarting"
			if ends && e.DisplayMessage != "" && e.Time >= found.Time {
				found = e
			}
		}
	}
	if found.DisplayMessage == "" {
		return ""
	}
	return ": " + found.DisplayMessage
}
