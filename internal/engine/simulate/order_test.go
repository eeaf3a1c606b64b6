package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories from orderSeeds on, tasks come after others: api after web, db after api, and report after
// all of them. Everything else is as in other histories. The judge checks that no run is decided on while a
// task that comes before has work. At the end, everything is applied. In histories from remoteOrderSeeds on,
// HCP Terraform applies what such tasks need.

const (
	// orderSeeds and remoteOrderSeeds are the first seeds of such histories.
	orderSeeds       = fleetSeeds / 2
	remoteOrderSeeds = remoteSeeds + remoteSeeds/2
)

// withOrder is the first of the bundles of such histories, and withRemoteOrder that for HCP Terraform.
var (
	withOrder       = withRemoteOrder - withRemote
	withRemoteOrder = withFleets - withRemote
)

// predecessors are what tasks come after. A pattern does not wait for a task that a bundle lacks.
var predecessors = map[string][]string{"api": {"we?"}, "db": {"ap*"}, "report": {"web*", "ap?", "d*"}}

// forOrder are bundles again, with an order.
func forOrder(plain []bundle) []bundle {
	var all []bundle
	for _, b := range plain {
		cfg := *b.config
		cfg.Tasks = slices.Clone(cfg.Tasks)
		for i := range cfg.Tasks {
			cfg.Tasks[i].Verify = verifications[cfg.Tasks[i].Name]
			if t := &cfg.Tasks[i]; predecessors[t.Name] != nil {
				t.After, t.AfterTimeout = predecessors[t.Name], 10*time.Minute
			}
		}
		all = append(all, bundle{digest: "o" + b.digest[1:], config: &cfg})
	}
	return all
}

// forRemoteOrder are bundles with an order again, for HCP Terraform.
func forRemoteOrder(ordered []bundle) []bundle {
	all := forRemote(ordered)
	for i := range all {
		all[i].digest = "h" + ordered[i].digest[1:]
	}
	return all
}

// ordered looks at a run that is launched: all tasks that come before its own must be at rest in the
// records, with everything applied that was seen and that Consul still shows, unless this tick has seen what
// is applied.
func (j *judge) ordered(v view, launch state.Launch, before, run state.Run) {
	launched := run.Kind.Applies() && run.State == state.RunIntended && before.State != state.RunIntended && launch.ID != "" && launch.ID == run.Launch
	if !v.ordered || !launched || run.Remote.PastApproval() {
		return
	}
	cfg := j.decidedBy(v, launch)
	if run.Kind == state.KindDestroy {
		j.destroysInOrder(v, cfg, run)
		return
	}
	order, seen := cfg.Order(), map[string]bool{}
	var visit func(task string)
	visit = func(task string) {
		for _, name := range order.Predecessors(task) {
			if seen[name] {
				continue
			}
			seen[name] = true
			t, ok := cfg.Task(name)
			if created := ok && t.FromAPI && j.tasks[name].Reason.Code == "" && j.tasks[name].Run == nil; created {
				continue // while the tick decided
			}
			if ok && j.hasWork(v, t) {
				v.violated("a task comes after its predecessors: run %s of %s is launched by %s while %s reads %s", run.ID, run.Task, v.name, name, state.Encode(j.tasks[name]))
			}
			visit(name)
		}
	}
	visit(run.Task)
}

// hasWork reports whether a task is not at rest, as its record says.
func (j *judge) hasWork(v view, t *config.Task) bool {
	s, service := j.tasks[t.Name], serviceOf(t.Name)
	if s.Run != nil || !t.Enabled {
		return s.Run != nil
	}
	changed := s.Observed.Digest != s.Applied.Digest && s.Observed.Digest == v.consul.digests[service] && v.act.seen[service] != s.Applied.Digest
	return s.Applied.At.IsZero() || changed || s.Forced.By != "" || s.Unfinished() || s.OnHold != nil || s.Applied.Doubt != "" || s.Applied.Unverified != nil
}

// explainedByOrder reports whether a task says that it waits for another one, which waits itself.
func (j *judge) explainedByOrder(w *world, record state.Task, want string) bool {
	after := record.After
	if after == nil || record.Reason.Code != state.ReasonAfter || record.Observed.Digest != want || record.Run != nil && record.Run.Resume == nil {
		return false
	}
	other := j.tasks[after.Task]
	shown := w.consul.digests[serviceOf(after.Task)]
	if (other.Destroy != nil || other.Gone.Final) && other.Reason.Code == state.ReasonAfter { // its condition is not read any more
		return j.explainedByOrder(w, other, other.Observed.Digest)
	}
	return other.Stop != nil || other.Cancelled() || w.absent && (other.Applied.Unverified != nil || other.OnHold != nil || other.Waits() != nil && j.waitsForPerson(other)) || j.explained(w, after.Task, shown)
}

// behind reports whether a task waits for another one, which waits for something else in the end.
func (j *judge) behind(record state.Task) bool {
	for range len(predecessors) + 1 {
		if record.After == nil || record.Reason.Code != state.ReasonAfter {
			return false
		}
		if record = j.tasks[record.After.Task]; record.Reason.Code != state.ReasonAfter {
			return true
		}
	}
	return false // a cycle
}

func TestNoHistoryWithAnOrderBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= orderSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, orderSeeds+*firstSeed)
}

func TestNoHistoryWithAnOrderAndHCPTerraformBreaksWhatMustAlwaysHold(t *testing.T) {
	if *firstSeed >= documentSeeds || *traced || *stride > 0 {
		t.Skip("this seed alone is meant")
	}
	simulates(t, remoteOrderSeeds+*firstSeed)
}
