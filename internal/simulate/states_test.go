package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/runner"
	tf "github.com/terrapulse/terrapulse/internal/terraform"
)

// tfstate is what a backend keeps of a task: Terraform's state, and its lock.
type tfstate struct {
	serial int
	lock   *tf.LockError // nil if it is not locked
	holder *process
	began  map[string]int // serial that a run began from
}

// tfstate returns the state of a task.
func (w *world) tfstate(task string) *tfstate {
	if w.states[task] == nil {
		w.states[task] = &tfstate{began: map[string]int{}}
	}
	return w.states[task]
}

// begin starts an apply. Like internal/terraform, it releases a lock whose holder
// is known to be dead, and begins once more.
func (h *hand) begin(ctx context.Context, task string, effect func() error) error {
	err := h.step(ctx, "terraform begins with "+task, effect)
	locked := new(tf.LockError)
	if !errors.As(err, &locked) {
		return err
	}
	if why := (runner.Locks{Store: view{process: h.process}, Log: nothing}).Orphaned(ctx, task, locked); why == "" {
		return err
	}
	if err := h.step(ctx, "terraform releases the lock of "+task, func() error { h.unlock(task, locked.ID); return nil }); err != nil {
		return err
	}
	return h.step(ctx, "terraform begins with "+task, effect)
}

// lock locks the state of a task for a run, if its backend has locks.
func (h *hand) lock(task, run string) error {
	s := h.tfstate(task)
	if h.weather.locks {
		if s.lock != nil {
			return s.lock
		}
		s.holder = h.process
		s.lock = &tf.LockError{Task: task, Command: "apply", ID: run, Operation: "OperationTypeApply", Who: h.who,
			Created: h.now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST")}
	}
	s.began[run] = s.serial
	return nil
}

// unlock releases a lock that is still there, as force-unlock does.
func (h *hand) unlock(task, id string) {
	s := h.tfstate(task)
	if s.lock == nil || s.lock.ID != id {
		return
	}
	if h.judge.applying[task] == s.holder && !h.jumped {
		h.violated("the lock of a run that lives is not released: %s releases that of %s on %s", h.name, s.holder.name, task)
	}
	s.lock, s.holder = nil, nil
}

// save writes the state that an apply has come to, and releases its lock.
func (h *hand) save(task, run string) error {
	s := h.tfstate(task)
	switch {
	case !h.weather.locks:
	case s.lock == nil || s.lock.ID != run:
		return fmt.Errorf("the lock of run %s was released", run)
	case s.serial != s.began[run]:
		h.violated("only the newest state survives: %s began run %s of %s from serial %d, and replaces %d", h.name, run, task, s.began[run], s.serial)
	default:
		s.lock, s.holder = nil, nil
	}
	s.serial++
	return nil
}

// freeLocks releases the locks that a dead process has left: at once where the
// backend does that by itself, and all when a person does at last.
func (w *world) freeLocks(of *process) {
	for _, s := range w.states {
		if s.holder != nil && (s.holder == of || of == nil && s.holder.dead) {
			s.lock, s.holder = nil, nil
		}
	}
}
