package ecstest

import (
	"net/http"
	"slices"
	"time"
)

// Fault is a failure of requests of one operation.
type Fault struct {
	Operation string
	Times     int // number of requests that fail; 1 if 0

	// Code and Message are the returned error, with the HTTP status 400, or Status.
	Code, Message string
	Status        int
	// Failure is the reason of a failure in a successful answer of RunTask, such as
	// RESOURCE:MEMORY.
	Failure string
	// FailToStart is why a task of RunTask stops before it runs, such as CannotPullContainerError:
	// not found.
	FailToStart string
	// Lose processes the request and then breaks the connection instead of answering.
	Lose bool
}

// Inject makes requests fail. Several faults of an operation occur in order.
func (s *Server) Inject(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Times = max(f.Times, 1)
		s.faults = append(s.faults, f)
	}
}

// Heal removes all remaining faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns the fault for a request. The caller holds mu.
func (s *Server) fault(operation string) Fault {
	i := slices.IndexFunc(s.faults, func(f Fault) bool { return f.Operation == operation })
	if i < 0 {
		return Fault{}
	}
	f := s.faults[i]
	if s.faults[i].Times--; s.faults[i].Times == 0 {
		s.faults = slices.Delete(s.faults, i, i+1)
	}
	return f
}

func (f Fault) refusal() *apiError {
	if f.Code == "" {
		return nil
	}
	e := refuse(f.Code, "%s", f.Message)
	e.status = max(f.Status, http.StatusBadRequest)
	return e
}

// Lag makes ListTasks and DescribeTasks show everything as it was this long ago: a task that was
// just started is unknown.
func (s *Server) Lag(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = by
}

// ForgetTokens forgets every client token, as ECS does after a time.
func (s *Server) ForgetTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// HoldStarts keeps new tasks in PROVISIONING until release is called.
func (s *Server) HoldStarts() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := make(chan struct{})
	s.starts = starts
	return func() { close(starts) }
}

// Kill ends a task's container at once, as by SIGKILL. The reason is the container's reason in ECS,
// such as OutOfMemoryError; it may be empty.
func (s *Server) Kill(arn, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		t.stopped = stop{code: "EssentialContainerExited", reason: "Essential container in task exited", container: reason}
		t.kill()
	}
}

// Interrupt reclaims the Spot capacity of a task: its container gets SIGTERM, and is killed after
// its stopTimeout.
func (s *Server) Interrupt(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		s.stop(t, stop{code: "SpotInterruption", reason: "Your Spot Task was interrupted."})
	}
}
