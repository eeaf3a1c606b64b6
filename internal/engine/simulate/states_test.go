package simulate

import (
	"context"
	"errors"
	"fmt"

	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	tf "github.com/terrapulse/terrapulse/internal/driver/terraformcli"

	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// tfstate is what a backend keeps of a task: Terraform's state, and its lock.
type tfstate struct {
	mark   tf.StateMark  // of the state in the backend
	saves  int           // how often it was written
	lock   *tf.LockError // nil if it is not locked
	holder *process
	began  map[string]beginning // by run
	left   map[string]leftState // by the disk on which an apply has left its state

	holds   holding // since the latest apply that was not broken
	outside int     // how often somebody has changed by hand what is there
}

// beginning is the state that an apply began from.
type beginning struct {
	mark  tf.StateMark
	saves int
}

// leftState is a state that the backend did not take: errored.tfstate.
type leftState struct {
	began    beginning
	mark     tf.StateMark
	run      string
	recorded bool // the outcome of the run says where it is
}

// tfstate returns the state of a task.
func (w *world) tfstate(task string) *tfstate {
	if w.states[task] == nil {
		w.states[task] = &tfstate{began: map[string]beginning{}, left: map[string]leftState{}}
	}
	return w.states[task]
}

// begin starts an apply. Like internal/driver/terraformcli, it releases a lock whose holder
// is known to be dead, and begins once more.
func (h *hand) begin(ctx context.Context, task string, effect func() error) error {
	if err := h.saveLeft(ctx, task); err != nil {
		return err
	}
	err := h.step(ctx, "terraform begins with "+task, effect)
	locked := new(tf.LockError)
	if !errors.As(err, &locked) {
		return err
	}
	if why := (tfdriver.Locks{Store: summary.Keep(view{process: h.process}), Log: nothing}).Orphaned(ctx, task, locked); why == "" {
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
		s.lock = &tf.LockError{Command: tf.Command{Task: task, Name: "apply"}, ID: run, Operation: "OperationTypeApply", Who: h.who,
			Created: h.now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST")}
	}
	s.began[run] = beginning{s.mark, s.saves}
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
	began := s.began[run]
	next := tf.StateMark{Lineage: task, Serial: began.mark.Serial + 1, Objects: []string{run}}
	if h.chance(h.weather.unsaved) {
		next.Serial += uint64(h.rng.IntN(2)) // one more where the apply was interrupted
		s.left[h.disk()] = leftState{began: began, mark: next, run: run}
		if s.lock != nil && s.lock.ID == run {
			s.lock, s.holder = nil, nil
		}
		h.note("    the backend does not take the state of %s", task)
		return unsavedError(task, next)
	}
	switch {
	case !h.weather.locks:
	case s.lock == nil || s.lock.ID != run:
		return fmt.Errorf("the lock of run %s was released", run)
	case s.saves != began.saves:
		h.violated("only the newest state survives: %s began run %s of %s from serial %d, and replaces %d", h.name, run, task, began.mark.Serial, s.mark.Serial)
	default:
		s.lock, s.holder = nil, nil
	}
	s.mark, s.saves = next, s.saves+1
	return nil
}

// disk is where a process has its directories. A container's is gone with it.
func (p *process) disk() string {
	if p.home == oneMachine {
		return "the machine"
	}
	return p.name
}

// saveLeft saves the state that an earlier apply has left on this disk, by the
// rule of internal/driver/terraformcli. What does not follow the backend's is kept aside.
func (h *hand) saveLeft(ctx context.Context, task string) error {
	h.mu.Lock()
	_, there := h.tfstate(task).left[h.disk()]
	h.mu.Unlock()
	if !there {
		return nil
	}
	return h.step(ctx, "terraform saves the left state of "+task, func() error {
		s := h.tfstate(task)
		left, there := s.left[h.disk()]
		switch {
		case !there:
			return nil
		case s.lock != nil:
			return s.lock
		case !tf.Replaceable(left.began.mark, s.mark, left.mark):
			h.note("    it is kept aside")
		case s.saves != left.began.saves:
			h.violated("an older state never replaces a newer one: %s pushes one of %s with serial %d, which began from %d, over %d",
				h.name, task, left.mark.Serial, left.began.mark.Serial, s.mark.Serial)
		default:
			s.mark, s.saves = left.mark, s.saves+1
		}
		delete(s.left, h.disk())
		return nil
	})
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
