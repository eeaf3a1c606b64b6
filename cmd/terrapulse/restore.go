package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores"
)

// clocks is how far the clocks of the processes that share a store may be apart.
const clocks = 30 * time.Second

// restored is what restore prints with -json.
type restored struct {
	Store string `json:"store"`
	Tasks int    `json:"tasks"` // that run once more
}

func (a *app) restoreCommand() command {
	var stackName, from string
	var flags storeFlags
	f := a.flagSet("restore")
	stackFlag(f, &stackName)
	f.StringVar(&from, "from", "", "The `URL` of the store with the records of the backup. Default: the store itself, into which the backup was written.")
	flags.register(f)
	return command{flags: f, synopsis: "Restore the store from a backup of it",
		examples: []string{"-stack=terrapulse -from=dynamodb://terrapulse-restored", onFile + " -from=sqlite:/backup/terrapulse.db"}, codes: codesOfStore,
		help: `Usage: terrapulse restore [flags]

  Brings a store into the state of a backup, which is another store with the
  records of an earlier time. Nothing may run meanwhile: stop the instance or,
  in AWS, run ` + "`terrapulse pause`" + ` and wait until no run is under way.

  Holds, changes made through the API and the history become those of the
  backup. What was applied after the backup is not known, so each task runs once
  more. Requests and approvals of the backup are dropped. Everything is paused
  afterwards: check the plans, then run ` + "`terrapulse resume`" + `.
`,
		run: func([]string) int { return a.restore(stackName, from, &flags) },
	}
}

func (a *app) restore(stackName, from string, flags *storeFlags) int {
	place, code := a.restored(stackName, flags)
	if code >= 0 {
		return code
	}
	to, err := place.Change(a.ctx)
	if err != nil {
		return a.fail(exitError, err)
	}
	defer to.Close()
	backup := state.Store(to)
	if from != "" {
		place, err := stores.At(a.ctx, from)
		if err != nil {
			return a.fail(exitFlags, err)
		}
		opened, err := place.Read(a.ctx)
		if err != nil {
			return a.fail(exitError, err)
		}
		defer opened.Close()
		backup = opened
	}
	skew := clocks
	if to.OneClock {
		skew = 0
	}
	tasks, err := control.Restore(audit.With(a.ctx, audit.Actor{Via: audit.Command}), to, backup, identity.Claimed(userAtHost()), skew, time.Now)
	if held := new(lease.HeldError); errors.As(err, &held) {
		err = fmt.Errorf("%w: stop it, or wait until it counts as ended, and try again", err)
	}
	if err != nil {
		return a.fail(exitError, fmt.Errorf("restore the store %s: %w", place.Where, err))
	}
	if a.json {
		return cmp.Or(a.printJSON(restored{place.Where, tasks}), exitOK)
	}
	fmt.Fprintf(a.stdout, "The store %s is restored, and everything is paused. %s once more after `terrapulse resume`.\n", place.Where, plural(tasks, "task runs", "tasks run"))
	return exitOK
}

// restored returns the store that is to be restored.
func (a *app) restored(stackName string, flags *storeFlags) (stores.Place, int) {
	if stackName == "" {
		place, err := flags.place(a.ctx)
		return place, a.invalid(err)
	}
	st, code := a.findStack(stackName)
	if code >= 0 {
		return stores.Place{}, code
	}
	url, err := st.Output("StoreUrl")
	if err != nil {
		return stores.Place{}, a.fail(exitConfig, err)
	}
	place, err := stores.At(a.ctx, url)
	return place, a.fail(exitError, err)
}
