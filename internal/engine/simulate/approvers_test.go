package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// anyWait is what somebody means who approves whatever waits.
const anyWait = "any"

// names are those of identities that change tasks and approve plans.
var names = []string{"user:ann", "user:bob", "token:cho"}

// oneOfTwo are people in the configurations of some bundles: then bob and cho are one person.
var oneOfTwo = roles.People{"bob": {"user:bob", "token:cho"}}

// personOf tells people apart as a configuration does.
func personOf(people roles.People, name string) string {
	for person, identities := range people {
		if slices.Contains(identities, name) {
			return person
		}
	}
	return name
}

// whoIs is who has one of the names, or only claims to.
func whoIs(name string, proven bool) identity.Identity {
	if !proven {
		return identity.Identity{Name: identity.Claimed(name), Proof: identity.None}
	}
	return identity.OfRecord(name)
}

// plan is a plan that somebody knows of, perhaps one that nobody waits with any more.
type plan struct{ task, id string }

// judges has somebody approve, reject, hold or release, or change infrastructure by
// hand. People come late and twice, and name plans that were replaced.
func (w *world) judges() {
	task := w.someTask()
	if w.weather.replaces > 0 && w.rng.IntN(4) == 0 { // also where there is nothing to approve
		w.approveAll()
		return
	}
	if w.removes && w.rng.IntN(5) == 0 {
		w.destroy(task)
		return
	}
	if n := len(w.plans); n > 0 && w.rng.IntN(10) < 8 {
		it := w.plans[n-1-w.rng.IntN(min(n, 4))]
		switch w.rng.IntN(6) {
		case 0:
			w.reject(it)
		case 1:
			it.id = ""
			if w.removes && w.rng.IntN(3) == 0 { // by mistake
				it.task = task
			}
			w.approve(it)
		default:
			w.approve(it)
		}
		return
	}
	if w.crosses && w.rng.IntN(3) == 0 {
		if w.rng.IntN(2) == 0 {
			w.cancels(task)
		} else {
			w.requests(task)
		}
		return
	}
	switch w.rng.IntN(6) {
	case 0, 1:
		w.hold(task)
	case 2, 3:
		w.release(task)
	default:
		w.tfstate(task).outside++
		w.note("somebody changes what %s has made", task)
	}
}

func (w *world) approve(it plan) {
	meant := it.id
	if meant == "" {
		meant = anyWait
	}
	name := names[w.rng.IntN(len(names))]
	by := whoIs(name, w.rng.IntN(4) != 0)
	w.person(by.Name+" approves plan "+it.id+" of "+it.task, meant, func(ctx context.Context, c *control.Control) error {
		return c.Approve(ctx, it.task, it.id, by, "")
	})
}

func (w *world) reject(it plan) {
	w.person("rejects plan "+it.id+" of "+it.task, it.id, func(ctx context.Context, c *control.Control) error {
		return c.Reject(ctx, it.task, it.id, "a person", "not now")
	})
}

func (w *world) hold(task string) {
	w.person("holds "+task, "", func(ctx context.Context, c *control.Control) error {
		return c.Hold(ctx, task, "a person", "we change it by hand")
	})
}

func (w *world) release(task string) {
	w.person("releases "+task, "", func(ctx context.Context, c *control.Control) error {
		return c.Release(ctx, task, "a person")
	})
}

// person has somebody do something through a process of the API.
func (w *world) person(what, meant string, do func(context.Context, *control.Control) error) {
	p, ctx := w.process("api")
	w.people = append(w.people, p)
	w.judge.meant[p.id] = meant
	base := bundles[w.pointer].config
	p.base = base
	c := &control.Control{Store: summary.Keep(view{process: p}), Now: p.now, Poll: 5 * time.Second,
		Base: func(context.Context) (*config.Config, error) { return base, nil }}
	w.note("%s %s", p.name, what)
	go func() {
		limited, stop := context.WithTimeout(ctx, patience)
		defer stop()
		err := do(limited, c)
		_, _ = ask(ctx, p, terraform, "answers", func() (any, error) {
			w.note("    %v", err)
			p.dead = true
			w.people = slices.DeleteFunc(w.people, func(other *process) bool { return other == p })
			return nil, nil
		})
	}()
}

// agree has people approve every plan and release every task, if there is anybody.
func (w *world) agree() {
	w.agreeOnPause()
	w.agreeThere()
	if w.judge.last.Replaced != nil && !w.absent {
		w.approveAll()
	}
	w.agreeOnRenames()
	w.agreeOnStates()
	w.verifyAll()
	for _, task := range w.tasks() {
		record := w.judge.tasks[task]
		if wait := record.Waits(); wait != nil && wait.Content != nil && record.Run.Resume == nil && !w.absent {
			w.approve(plan{task, wait.ID})
		}
		if record.OnHold != nil && !w.absent {
			w.release(task)
		}
	}
}
