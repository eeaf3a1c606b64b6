package ecstest

import (
	"net/http"
	"slices"
	"time"
)

// Fault is one thing that goes wrong with requests of an operation.
type Fault struct {
	Operation string
	Times     int // how many requests it concerns; 1 if 0

	// Code and Message are the error that is answered, with the HTTP status
	// 400, or Status.
	Code, Message string
	Status        int
	// Failure is the reason of the failure in an answer of RunTask that is no
	// error, such as RESOURCE:MEMORY.
	Failure string
	// FailToStart is why a task that RunTask starts stops before it runs, such
	// as CannotPullContainerError: not found.
	FailToStart string
	// Lose breaks the connection instead of the answer, whatever was done.
	Lose bool
}

// Inject has requests go wrong. Of several faults of an operation, the first
// comes first.
func (s *Server) Inject(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Times = max(f.Times, 1)
		s.faults = append(s.faults, f)
	}
}

// Heal takes back every fault that is left.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault is what goes wrong with a request. The caller holds mu.
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

// Lag has ListTasks and DescribeTasks show everything as it was so long ago:
// a task that was just started is unknown.
func (s *Server) Lag(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = by
}

// ForgetTokens forgets every client token, as ECS does in time.
func (s *Server) ForgetTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// HoldStarts keeps tasks that are started from now on in PROVISIONING, until
// the function that it returns is called.
func (s *Server) HoldStarts() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := make(chan struct{})
	s.starts = starts
	return func() { close(starts) }
}

// Kill ends a task's container at once, as by SIGKILL. The reason is what ECS
// says of the container, such as OutOfMemoryError; it may be empty.
func (s *Server) Kill(arn, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		t.stopped = stop{code: "EssentialContainerExited", reason: "Essential container in task exited", container: reason}
		t.kill()
	}
}

// Interrupt takes back the Spot capacity of a task: its container is told to
// end, and killed when its stopTimeout is over.
func (s *Server) Interrupt(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		s.stop(t, stop{code: "SpotInterruption", reason: "Your Spot Task was interrupted."})
	}
}
