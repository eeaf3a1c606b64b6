package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// patience is how long people wait for a run.
const patience = 3 * time.Minute

// made are the definitions of tasks that people make: of one that no bundle
// has, and of one that some have, too.
var made = func() []json.RawMessage {
	var all []json.RawMessage
	for _, name := range []string{"extra", "db"} {
		for _, module := range []string{"./made", "./made-otherwise"} {
			all = append(all, fmt.Appendf(nil, `{"name":%q,"module":%q,"condition":{"services":{"names":[%[1]q]}}}`, name, module))
		}
	}
	return all
}()

// makes returns the definitions of a history: where tasks have rules, those of half of
// the definitions have some, too.
func (w *world) makes() []json.RawMessage {
	all := made
	if w.removes {
		all = madeForRemoval
	} else if w.ruled {
		all = madeWithRules
	}
	if w.partly {
		return ofPeer(all)
	}
	if w.remote {
		return remotely(all)
	}
	if w.consul.docs != nil {
		return onDocuments(all)
	}
	return all
}

var madeWithRules = func() []json.RawMessage {
	all := slices.Clone(made)
	for i := 0; i < len(all); i += 2 {
		all[i] = slices.Concat(all[i][:len(all[i])-1], []byte(`,"approval":"always","require_distinct_approver":true}`))
	}
	return all
}()

// wish is what somebody asks for.
type wish struct {
	what    string
	task    string
	trial   bool
	waits   bool // for the run
	do      func(ctx context.Context, c *control.Control, w *wish) error
	earlier control.Earlier // than the run that is waited for
}

// somebody has a process of the API do what a person asks for.
func (w *world) somebody() {
	p, ctx := w.process("api")
	w.people = append(w.people, p)
	// What the process knows of the bundle may be old.
	base := w.pointer
	if w.chance(200) {
		base = w.someBundle()
	}
	c := &control.Control{Store: summary.Keep(view{process: p}), Now: p.now, Poll: 5 * time.Second,
		Base: func(ctx context.Context) (*config.Config, error) {
			return ask(ctx, p, bucket, "read bundle "+bundles[base].digest, func() (*config.Config, error) { return bundles[base].config, nil })
		}}
	wish := w.wish()
	w.note("%s is asked: %s %s, trial %v", p.name, wish.what, wish.task, wish.trial)
	go func() {
		limited, stop := context.WithTimeout(ctx, patience)
		defer stop()
		err := wish.do(limited, c, wish)
		var run state.Run
		waits := err == nil && wish.waits
		if waits {
			run, err = c.AwaitRun(limited, wish.task, wish.earlier)
		}
		_, _ = ask(ctx, p, terraform, "answers", func() (any, error) {
			w.note("    %v", err)
			p.dead = true
			w.people = slices.DeleteFunc(w.people, func(other *process) bool { return other == p })
			if err == nil {
				w.judge.answered(w, p, wish)
			}
			if err == nil && waits {
				w.judge.waited(w, p, wish, run)
			}
			return nil, nil
		})
	}()
}

// wish draws what somebody asks for.
func (w *world) wish() *wish {
	it := &wish{task: w.someTask(), trial: w.rng.IntN(2) == 0}
	opts := control.ChangeOptions{By: "a person", Provisional: it.trial}
	if w.ruled {
		opts.By = names[w.rng.IntN(len(names))]
	}
	switch n := w.rng.IntN(100); {
	case n < 35:
		definition := w.makes()[w.rng.IntN(len(made))]
		var named struct{ Name string }
		_ = json.Unmarshal(definition, &named)
		it.what, it.task = "create", named.Name
		it.do = func(ctx context.Context, c *control.Control, it *wish) (err error) {
			_, it.earlier, err = c.Create(ctx, definition, opts)
			return err
		}
	case n < 60:
		it.what = "enable"
		it.do = func(ctx context.Context, c *control.Control, it *wish) (err error) {
			it.earlier, err = c.SetEnabled(ctx, it.task, true, opts)
			return err
		}
	case n < 78:
		it.what, it.trial = "disable", false
		it.do = func(ctx context.Context, c *control.Control, it *wish) error {
			_, err := c.SetEnabled(ctx, it.task, false, opts)
			return err
		}
	case n < 90:
		it.what, it.trial = "delete", false
		it.do = func(ctx context.Context, c *control.Control, it *wish) error {
			_, err := c.Delete(ctx, it.task, opts.By)
			return err
		}
	case n < 97:
		it.what, it.trial, it.waits = "force", false, w.rng.IntN(2) == 0
		it.do = func(ctx context.Context, c *control.Control, it *wish) (err error) {
			it.earlier, err = c.Force(ctx, it.task, opts.By)
			return err
		}
	case n < 98:
		it.what, it.trial = "reset", false
		it.do = func(ctx context.Context, c *control.Control, _ *wish) error {
			_, err := c.Reset(ctx)
			return err
		}
	default:
		it.what, it.trial = "tick", false
		it.do = func(ctx context.Context, c *control.Control, _ *wish) error { return c.Tick(ctx) }
	}
	it.waits = it.waits || it.trial && w.rng.IntN(2) == 0
	return it
}

// killPeople ends the processes of the API.
func (w *world) killPeople() {
	for _, p := range slices.Clone(w.people) {
		p.kill("the end")
	}
}
