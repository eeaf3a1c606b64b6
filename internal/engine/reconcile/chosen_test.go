package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// eachItsOwn are n tasks, each of which watches a service of its own.
func eachItsOwn(n int) []config.Task {
	all := tasks(n)
	for i := range all {
		all[i].Condition.Spec = condition.Services{{Names: []string{fmt.Sprintf("service-%d", i)}}}
	}
	return all
}

// changed is a catalog in which the services of some tasks have changed.
type changed struct {
	*catalog
	shows      map[string]string // by id of a query
	unreadable map[string]bool
}

func (c changed) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := c.catalog.Observe(ctx, queries)
	for i, q := range queries {
		if c.unreadable[q.ID()] {
			answers[i] = consul.Answer{Err: errors.New("permission denied")}
		}
		if digest, ok := c.shows[q.ID()]; ok && answers[i].Err == nil {
			answers[i].Digest, answers[i].Elements = digest, map[string]string{digest: "1"}
		}
	}
	return answers
}

// shows has the services of tasks change, and a gate move.
func (b *bench) shows(to string, all ...config.Task) {
	for _, id := range queriesOf(all) {
		b.changes().shows[id] = to
	}
	b.catalog.digest = "A" // of the others
	b.moveGate()
}

// changes is the catalog, in which the services of some tasks are other than the rest.
func (b *bench) changes() changed {
	c, ok := b.Consul.(changed)
	if !ok {
		c = changed{b.catalog, map[string]string{}, map[string]bool{}}
		b.Consul = c
	}
	return c
}

// queriesOf are the ids of what the tasks watch.
func queriesOf(all []config.Task) (ids []string) {
	for _, task := range all {
		query, _ := consul.ConditionQuery(&task)
		ids = append(ids, query.ID())
	}
	return ids
}

// moveGate has every gate move, though nothing else has changed.
func (b *bench) moveGate() {
	rec, err := state.ReadReconcile(b.t.Context(), b.store)
	b.must(err)
	for key, gate := range rec.Data.Gates {
		gate.Mark = "before"
		rec.Data.Gates[key] = gate
	}
	_, err = b.store.Apply(b.t.Context(), rec.Write(rec.Data))
	b.must(err)
}

// asked is a store that notes what it is asked for.
type asked struct {
	state.Store
	reads, writes []string
}

func (a *asked) Get(ctx context.Context, key string) (state.Record, error) {
	a.reads = append(a.reads, "get "+key)
	return a.Store.Get(ctx, key)
}

func (a *asked) List(ctx context.Context, prefix string) ([]state.Record, error) {
	a.reads = append(a.reads, "list "+prefix)
	return a.Store.List(ctx, prefix)
}

func (a *asked) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	for _, key := range keys {
		a.reads = append(a.reads, "get "+key)
	}
	return state.GetSeveral(ctx, a.Store, keys)
}

func (a *asked) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	for _, c := range changes {
		if c.Op != state.OpCheck {
			a.writes = append(a.writes, c.Key)
		}
	}
	return a.Store.Apply(ctx, changes...)
}

// tasksRead are the tasks whose records were read; "all" if they were listed.
func (a *asked) tasksRead() []string {
	var names []string
	for _, read := range a.reads {
		if key, ok := strings.CutPrefix(read, "get "+state.TaskPrefix); ok {
			names = append(names, key)
		}
		if read == "list "+state.TaskPrefix {
			names = append(names, "all")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asks returns what the store is asked for from now on.
func (b *bench) asks() *asked {
	b.LeaseTTL = time.Hour // a tick of a busy machine does not renew it meanwhile
	a := &asked{Store: b.store}
	b.Store = a
	return a
}

// reads checks of which tasks a tick reads the records.
func (b *bench) reads(what string, want ...string) Report {
	b.t.Helper()
	a := b.asks()
	report := b.tick()
	b.Store = b.store
	if got := a.tasksRead(); !slices.Equal(got, want) {
		b.t.Errorf("%s: the records of the tasks %v are read, want %v", what, got, want)
	}
	return report
}

func TestTick_ReadsTheRecordsOfTheTasksThatConcernIt(t *testing.T) {
	all := eachItsOwn(100)
	all[50].Condition.Spec = condition.Schedule{Cron: "0 18 * * *"}
	all[60].Enabled = false
	b := newBench(t, all...)
	b.settle()
	b.moveGate()
	if r := b.reads("a gate moves and nothing has changed"); r.Idle {
		t.Error("the tick was idle")
	}

	b.shows("B", all[7], all[3])
	b.reads("two tasks have changed", "task-3", "task-7")
	if b.begun("task-3") != 2 || b.begun("task-7") != 2 || b.begun("task-4") != 1 {
		t.Errorf("tasks 3, 7, 4 were begun %d, %d, %d times", b.begun("task-3"), b.begun("task-7"), b.begun("task-4"))
	}
	b.now = b.now.Add(liveCheck)
	b.reads("their runs are under way", "task-3", "task-7")
	b.end(state.RunSucceeded, "B")
	b.now = b.now.Add(liveCheck)
	b.reads("their runs have ended", "task-3", "task-7")

	b.now = b.now.Add(refreshEvery)
	if r := b.reads("everything is read again"); r.Idle {
		t.Error("the tick was idle")
	}
	b.must(b.people().Hold(t.Context(), "task-9", "ann", "maintenance"))
	b.moveGate()
	b.reads("a task is on hold", "task-9")
	b.shows("C", all[9], all[10])
	b.reads("a task on hold and another one have changed", "task-10", "task-9")
	if b.begun("task-9") != 1 || b.begun("task-10") != 2 {
		t.Errorf("tasks 9 and 10 were begun %d and %d times", b.begun("task-9"), b.begun("task-10"))
	}
	b.end(state.RunFailed, "")
	b.now = b.now.Add(liveCheck)
	b.reads("a task fails", "task-10", "task-9")

	b.now = time.Date(2086, 3, 14, 18, 0, 1, 0, time.UTC)
	b.reads("a schedule is due", "task-10", "task-50", "task-9")
}

// notAtRest are the ways in which a task is not at rest for long.
var notAtRest = map[string]func(b *bench, some []config.Task){
	"unreadable": func(b *bench, some []config.Task) {
		for _, id := range queriesOf(some) {
			b.changes().unreadable[id] = true
		}
		b.moveGate()
		b.tick()
	},
	"failing": func(b *bench, some []config.Task) {
		b.shows("B", some...)
		b.tick()
		b.end(state.RunFailed, "")
	},
	"waiting for approvals": func(b *bench, some []config.Task) {
		force := map[string]string{}
		for _, task := range some {
			force[task.Name] = "ann"
		}
		report, err := b.Tick(b.t.Context(), TickOptions{Force: force})
		b.must(err)
		for _, launch := range report.Launches {
			for _, planned := range launch.Runs {
				b.claimed(planned, "container")
				b.wait(planned, approval)
			}
		}
		b.launcher.forget()
	},
	"on hold": func(b *bench, some []config.Task) {
		for _, task := range some {
			b.must(b.people().Hold(b.t.Context(), task.Name, "ann", "maintenance"))
		}
	},
}

// A task that is not at rest adds its record to each tick, and no other, as long as those are few of all.
func TestTick_TaskThatIsNotAtRestAddsItselfAlone(t *testing.T) {
	for what, make := range notAtRest {
		for _, tt := range []struct {
			n   int
			all bool
		}{{1, false}, {35, false}, {60, true}} {
			t.Run(fmt.Sprintf("%d tasks are %s", tt.n, what), func(t *testing.T) {
				all := eachItsOwn(400)
				b := newBench(t, all...)
				b.settle()
				make(b, all[:tt.n])
				b.now = b.now.Add(liveCheck)
				b.tick()
				b.shows("C", all[300])
				want := []string{"task-300"}
				for _, task := range all[:tt.n] {
					want = append(want, task.Name)
				}
				if slices.Sort(want); tt.all {
					want = []string{"all", "task-300"}
				}
				before := b.begun("task-300")
				b.reads("one other task changes", want...)
				if b.begun("task-300") != before+1 {
					t.Error("the task that has changed was not begun")
				}
			})
		}
	}
}

// A renamed task whose next run takes along its Terraform state adds the record of its former name. Once that has
// succeeded, its moved_from has no effect.
func TestTick_RenamedTaskAddsItsFormerName(t *testing.T) {
	all := eachItsOwn(100)
	b := newBench(t, slices.Clone(all)...)
	b.settle()
	b.shows("A", all...)
	all[0].Name, all[0].MovedFrom = "new", []string{"task-0"}
	b.reload(slices.Clone(all)...)
	if b.begun("new") != 1 || !slices.Equal(b.task("new").Former.Moving, []string{"task-0"}) {
		t.Fatalf("the new name was begun %d times: %+v", b.begun("new"), b.task("new"))
	}
	b.shows("B", all[7])
	b.reads("another task changes during its run", "new", "task-0", "task-7")
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	b.shows("C", all[9])
	b.reads("another task changes later", "task-0", "task-7", "task-9")
	b.shows("D", all[0])
	b.reads("the renamed task changes", "new", "task-0", "task-7", "task-9")
	if run := b.runs("new"); run == nil || run.Moves != nil {
		t.Errorf("the state is taken along twice: %+v", run)
	}
}

// Who requests a run of all tasks hears of each of them, also of one that is disabled.
func TestTick_RequestForAllTasksDecidesAboutEach(t *testing.T) {
	all := eachItsOwn(30)
	all[20].Enabled = false
	b := newBench(t, all...)
	b.settle()
	report, err := b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-3": "ann"}, All: true})
	b.must(err)
	if len(report.Decisions) != 30 || report.Decisions[20].Reason.Code != state.ReasonDisabled {
		t.Errorf("%d decisions, of task 20 %+v", len(report.Decisions), report.Decisions[20].Reason)
	}
}

// A process that was just started knows no rows. In AWS it is no new leadership, either.
func TestTick_NewProcessReadsTheSummaryOnce(t *testing.T) {
	all := eachItsOwn(100)
	b := newBench(t, all...)
	b.settle()
	b.shows("B", all[7])
	consul := b.Consul
	b.Reconciler = b.another(all)
	b.Consul = consul
	b.reads("a new process", "task-7")
	if b.begun("task-7") != 2 {
		t.Errorf("the task was begun %d times", b.begun("task-7"))
	}
}

// What is at rest by its row, and was changed without it, is put right when everything is read.
func TestTick_SummaryIsMadeAnew(t *testing.T) {
	all := eachItsOwn(100)
	b := newBench(t, all...)
	b.settle()
	records, err := b.store.List(t.Context(), summary.Prefix)
	b.must(err)
	for _, rec := range records {
		_, err := b.store.Apply(t.Context(), state.Delete(rec))
		b.must(err)
	}
	b.shows("B", all[7])
	b.reads("the summary is lost", "all")
	if b.begun("task-7") != 2 {
		t.Errorf("the task was begun %d times", b.begun("task-7"))
	}
	b.now = b.now.Add(liveCheck)
	b.reads("it was made anew", "task-7")
}

// The number of requests and of records does not depend on the number of tasks.
func TestTick_OneChangeInATableReadsLittle(t *testing.T) {
	const n = 500
	url := dynamotest.Start(t)
	proxy := dynamotest.NewProxy(t, url)
	table := dynamotest.Table(t, url)
	all := eachItsOwn(n)
	b := newBench(t, all...)
	b.onTable(dynamo.New(dynamotest.Config(proxy.URL), table))
	made := func() (requests map[string]int, total int) { // by the tick: the SDK repeats what a busy DynamoDB Local does not answer
		requests = proxy.Requests()
		delete(requests, dynamotest.Repeated)
		for _, count := range requests {
			total += count
		}
		return requests, total
	}
	b.settle()
	b.moveGate()
	b.tick()
	folds, removals := 0, 0
	for i := range 30 {
		b.shows(fmt.Sprint(i), all[300+i])
		a := b.asks()
		proxy.Requests()
		if report := b.tick(); len(report.Launches) != 1 {
			t.Fatalf("%d launches", len(report.Launches))
		}
		requests, total := made()
		kinds, more := map[string]bool{}, 0
		for _, key := range a.writes {
			kind, _, _ := strings.Cut(key, "/")
			kinds[kind] = true
		}
		if kinds["summary"] {
			folds, more = folds+1, more+1
			delete(kinds, "summary")
		}
		if kinds["events"] {
			removals, more = removals+1, more+1
			delete(kinds, "events")
		}
		if want := []string{"launch", "lease", "outbox", "reconcile", "run", "task"}; !slices.Equal(slices.Sorted(maps.Keys(kinds)), want) {
			t.Errorf("records of the kinds %v are written, want %v", slices.Sorted(maps.Keys(kinds)), want)
		}
		most := 10
		if i > 0 {
			most = 12 // the end of the last run is noted, too
		}
		if more == 2 { // in one of about 200 ticks
			most++
		}
		if total > most {
			t.Errorf("%d requests, at most %d: %v, reads %v, writes %v", total, most, requests, a.reads, a.writes)
		}
		b.end(state.RunSucceeded, fmt.Sprint(i))
		b.now = b.now.Add(liveCheck)
	}
	for _, task := range all[:40] {
		b.must(b.people().Hold(t.Context(), task.Name, "ann", "maintenance"))
	}
	b.tick()
	b.shows("held", all[400])
	proxy.Requests()
	b.tick()
	requests, total := made()
	if requests["BatchGetItem"] != 1 || total > 12 {
		t.Errorf("with 40 tasks on hold: %d requests, at most 12: %v", total, requests)
	}
	if folds == 0 || removals == 0 {
		t.Errorf("%d ticks have folded the summary, %d have removed events", folds, removals)
	}
}
