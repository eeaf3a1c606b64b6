package ecstest

import (
	"cmp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
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
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, slices.Repeat([]Fault{f}, max(f.Times, 1))...)
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
	s.faults = slices.Delete(s.faults, i, i+1)
	return f
}

// Lag makes ListTasks and DescribeTasks show everything as it was these times ago: a task that was just
// started is not listed, or it is MISSING.
func (s *Server) Lag(list, describe time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagOfList, s.lagOfDescribe = list, describe
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
	t := s.find(arn)
	t.stopped = &stop{types.TaskStopCodeEssentialContainerExited, "Essential container in task exited", reason}
	t.kill()
}

// Interrupt reclaims the Spot capacity of a task: its container gets SIGTERM, and is killed after
// its stopTimeout.
func (s *Server) Interrupt(arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminate(s.find(arn), &stop{code: types.TaskStopCodeSpotInterruption, reason: "Your Spot Task was interrupted."})
}

// terminate sends a container SIGTERM, and kills it after its stopTimeout.
func (s *Server) terminate(t *task, why *stop) {
	t.stopped = why
	t.now.DesiredStatus, t.now.StoppingAt = aws.String("STOPPED"), aws.Time(s.opts.Now())
	s.move(t, *t.now.LastStatus)
	wait := cmp.Or(aws.ToInt32(t.definition.ContainerDefinitions[0].StopTimeout), stopTimeout)
	time.AfterFunc(time.Duration(wait)*time.Second, t.kill)
	t.terminate()
}
