package state

import (
	"strings"
	"time"
)

// RecentRuns is how many ended runs the record of a task describes.
const RecentRuns = 20

// Outcomes are how runs ended, oldest first, as one text such as "succeeded apply
// 2026-11-22T10:57:40Z 12.3s, failed apply 2026-11-22T10:58:40Z 0s". It is parsed only
// where people see it: a tick decodes the records of all tasks.
type Outcomes string

// Outcome is the shortest form of a run that has ended.
type Outcome struct {
	State RunState
	Kind  Kind
	Ended time.Time     // without fractions of a second
	Took  time.Duration // without its waits; 0 if the run never began
}

const betweenOutcomes = ", "

// add returns the outcomes with that of one more run, RecentRuns at most.
func (o Outcomes) add(r Run) Outcomes {
	var took time.Duration
	if !r.Started.IsZero() {
		took = max(time.Millisecond, r.Worked(r.Ended).Round(time.Millisecond))
	}
	text := strings.Join([]string{string(r.State), string(r.Kind), r.Ended.UTC().Format(time.RFC3339), took.String()}, " ")
	if o == "" {
		return Outcomes(text)
	}
	if strings.Count(string(o), betweenOutcomes) == RecentRuns-1 {
		_, rest, _ := strings.Cut(string(o), betweenOutcomes)
		o = Outcomes(rest)
	}
	return o + Outcomes(betweenOutcomes+text)
}

// RecentRun is a run that ended, with its id.
type RecentRun struct {
	ID string
	Outcome
}

// RecentRuns returns the newest runs that ended, oldest first.
func (t Task) RecentRuns() []RecentRun {
	if t.Ended.Recent == "" {
		return nil
	}
	outcomes := strings.Split(string(t.Ended.Recent), betweenOutcomes)
	n := min(len(outcomes), len(t.Ended.IDs))
	ids, outcomes := t.Ended.IDs[len(t.Ended.IDs)-n:], outcomes[len(outcomes)-n:]
	runs := make([]RecentRun, n)
	for i, text := range outcomes {
		runs[i] = RecentRun{ids[i], parseOutcome(text)}
	}
	return runs
}

func parseOutcome(text string) (o Outcome) {
	fields := append(strings.Fields(text), "", "", "", "")
	o.State, o.Kind = RunState(fields[0]), Kind(fields[1])
	o.Ended, _ = time.Parse(time.RFC3339, fields[2])
	o.Took, _ = time.ParseDuration(fields[3])
	return o
}
