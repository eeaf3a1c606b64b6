package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories from crossingSeeds on, large features meet: tasks are renamed, with moved_from and
// without it, two of one shape at once, back again, and over a skipped bundle; removed tasks are
// destroyed; a schedule is due rarely; people disable and enable, hold, pause, reject, cancel and
// destroy, also outside of AWS.
//
// The judge (crossings_judge_test.go) checks that nothing is made twice, that what perhaps was renamed
// is not destroyed, that what a person ended stays ended, also under another name, and that whatever a
// run was begun for survives until it ends.

// crossingSeeds is the first seed of such histories.
const crossingSeeds = remoteSeeds / 4

// withCrossings is the first of the bundles of such histories.
const withCrossings = 3 * withRemote

// family maps tasks that may be one another under a former name to the service that they watch.
var family = map[string]string{"web": "web", "site": "web", "page": "web", "gate-a": "api", "gate-b": "api", "door-a": "api", "door-b": "api"}

// serviceOf returns the service that a task watches.
func serviceOf(task string) string {
	if service, ok := family[task]; ok {
		return service
	}
	return task
}

// crossingTasks are the tasks of such histories.
var crossingTasks = []string{"web", "site", "page", "gate-a", "gate-b", "door-a", "door-b", "db", "report", "extra"}

// tasks are the names of tasks that a history may have.
func (w *world) tasks() []string {
	if w.crosses {
		return crossingTasks
	}
	if w.fleet {
		return fleetNames
	}
	return services
}

func (w *world) someTask() string {
	all := w.tasks()
	return all[w.rng.IntN(len(all))]
}

// forCrossings are bundles between which tasks are renamed.
func forCrossings() []bundle {
	common := config.Rules{Guard: guard.Default, Approval: approval.Spec{Rule: approval.Never, Expires: 20 * time.Minute}}
	task := func(name, from, module string, approve removal.Approve) config.Task {
		definition := fmt.Appendf(nil, `{"name":%q,"module":%q,"on_removal":"destroy","approve_destroy":%q,"condition":{"services":{"names":[%q]}}}`, name, module, approve, serviceOf(name))
		cfg, problems := (&config.Config{Rules: common}).With([]config.Change{{Task: name, Definition: definition}})
		t, there := cfg.Task(name)
		if !there {
			panic(problems[name])
		}
		if t.FromAPI = false; from != "" {
			t.MovedFrom = []string{from}
		}
		return *t
	}
	site := func(name, from string) config.Task { return task(name, from, "./site", removal.Always) }
	gate := func(name, from string) config.Task { return task(name, from, "./gate", removal.Never) }
	db := task("db", "", "./db", removal.Never)
	most, limited := 4, common
	limited.Guard.MaxDestroy = &most
	return crossing(common,
		[]config.Task{site("web", ""), gate("gate-a", ""), gate("gate-b", ""), rareReport(common), db},
		[]config.Task{site("site", "web"), gate("gate-a", ""), gate("gate-b", ""), rareReport(limited)},
		[]config.Task{site("site", ""), gate("door-a", ""), gate("door-b", ""), rareReport(common), db},
		[]config.Task{site("page", "site"), gate("door-a", "gate-a"), gate("door-b", "gate-b"), rareReport(limited)},
		[]config.Task{site("site", "wbe"), gate("gate-a", ""), gate("door-b", ""), rareReport(common), db},
	)
}

func crossing(common config.Rules, all ...[]config.Task) []bundle {
	bundles := make([]bundle, len(all))
	for i, tasks := range all {
		bundles[i] = bundle{digest: fmt.Sprint("x", i), config: &config.Config{KeepRemoved: keptRemoved, Rules: common, Tasks: tasks}}
	}
	return bundles
}

// rareReport is a task whose schedule is due every three hours, and whose plans need an approval.
func rareReport(common config.Rules) config.Task {
	cfg, problems := (&config.Config{Rules: common}).With([]config.Change{{Task: "report",
		Definition: []byte(`{"name":"report","module":"./report","approval":"always","condition":{"schedule":{"cron":"0 */3 * * *"}},"module_input":{"services":{"names":["report"]}}}`)}})
	t, there := cfg.Task("report")
	if !there {
		panic(problems["report"])
	}
	t.FromAPI = false
	return *t
}

// isRare reports whether a task is run by a schedule that is due rarely.
func isRare(t *config.Task) bool {
	cron, scheduled := t.Condition.Schedule()
	return scheduled && cron == "0 */3 * * *"
}

// drawCrossings prepares a history in which features meet.
func (w *world) drawCrossings() {
	w.ruled, w.removes, w.pointer = true, true, withCrossings
	w.judge.pushes[0] = bundles[w.pointer].digest
	w.consul.fill(w)
	w.weather.replaces = []int{0, 3, 10}[w.rng.IntN(3)]
	w.weather.people = []int{5, 10, 20}[w.rng.IntN(3)]
	w.judge.pauses.some = w.rng.IntN(4) == 0
}

// applyAll has the tasks be applied before anything happens to them.
func (w *world) applyAll() {
	w.faults = false
	for range 300 {
		if w.step(); w.broken != "" {
			break
		}
	}
	w.faults = true
}

// stable reports whether a change of the configuration is left out, so that runs end between two.
func (w *world) stable() bool {
	return w.crosses && (!w.faults || w.rng.IntN(8) > 0) || w.shrinks && w.rng.IntN(8) > 0
}

// cancels has somebody cancel the run of a task.
func (w *world) cancels(task string) {
	w.person("cancels the run of "+task, "", func(ctx context.Context, c *control.Control) error {
		_, err := c.Cancel(ctx, task, "a person")
		return err
	})
}

// requests has somebody request a run of a task.
func (w *world) requests(task string) {
	w.person("requests a run of "+task, "", func(ctx context.Context, c *control.Control) error {
		_, err := c.Force(ctx, task, "a person")
		return err
	})
}

// takeAlong has Terraform move the state of a renamed task.
func (h *hand) takeAlong(ctx context.Context, job driver.Job) error {
	m := job.Run.Moves
	if m == nil {
		return nil
	}
	return h.step(ctx, "terraform moves the state of "+strings.Join(m.From, ", ")+" to "+job.Task.Name, func() error { return h.move(job.Task.Name, m) })
}

func (w *world) move(task string, m *state.Move) error {
	if to := w.tfstate(task); to.saves > 0 || len(to.left) > 0 {
		return nil // an earlier run has moved it
	}
	for _, name := range m.From {
		from := w.tfstate(name)
		switch {
		case from.lock != nil:
			return from.lock
		case w.judge.applying[name] != nil:
			return errors.New("another process applies " + name)
		case from.saves == 0 && len(from.left) == 0:
			continue
		}
		w.states[task] = from
		delete(w.states, name)
		w.judge.infra[task] = w.judge.infra[name]
		delete(w.judge.infra, name)
		return nil
	}
	if m.Expected {
		return errors.New("there is no state of " + strings.Join(m.From, ", "))
	}
	return nil
}

// agreeOnRenames has people say in the end that a task is new which waits for that.
func (w *world) agreeOnRenames() {
	for _, task := range w.tasks() {
		if record := w.judge.tasks[task]; w.crosses && !w.absent && record.Reason.Code == state.ReasonRenamed && record.Forced.By == "" && slices.ContainsFunc(bundles[w.pointer].config.Tasks, func(t config.Task) bool { return t.Name == task }) {
			w.requests(task)
		}
	}
}
