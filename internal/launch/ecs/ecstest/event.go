package ecstest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// event returns the status as an EventBridge event.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs_task_events.html
func (s status) event() []byte {
	stamp := func(t time.Time) any { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	detail := s.fields(stamp)
	detail["updatedAt"] = stamp(s.Updated)
	text, _ := json.Marshal(map[string]any{
		"version": "0", "id": uuid.NewString(), "detail-type": "ECS Task State Change", "source": "aws.ecs",
		"account": Account, "region": Region, "time": s.Updated.UTC().Format(time.RFC3339), "resources": []string{s.ARN},
		"detail": detail,
	})
	return text
}

// events delivers events one at a time, in another goroutine.
type events struct {
	deliver func(event []byte)
	done    chan struct{}

	mu    sync.Mutex
	more  *sync.Cond
	queue [][]byte
	held  [][]byte
	hold  bool
	over  bool
}

func (e *events) begin(deliver func([]byte)) {
	e.deliver, e.done = deliver, make(chan struct{})
	e.more = sync.NewCond(&e.mu)
	go func() {
		defer close(e.done)
		for {
			e.mu.Lock()
			for len(e.queue) == 0 && !e.over {
				e.more.Wait()
			}
			if len(e.queue) == 0 {
				e.mu.Unlock()
				return
			}
			next := e.queue[0]
			e.queue = e.queue[1:]
			e.mu.Unlock()
			if e.deliver != nil {
				e.deliver(next)
			}
		}
	}()
}

func (e *events) add(event []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hold {
		e.held = append(e.held, event)
		return
	}
	e.queue = append(e.queue, event)
	e.more.Signal()
}

func (e *events) end() {
	e.mu.Lock()
	e.over = true
	e.more.Signal()
	e.mu.Unlock()
	<-e.done
}

// Hold delays events until Release.
func (s *Server) Hold() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	s.events.hold = true
}

// Release delivers the delayed events, each this many times, in reverse order if reversed, and ends
// Hold.
func (s *Server) Release(times int, reversed bool) {
	e := &s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if reversed {
		slices.Reverse(e.held)
	}
	for range times {
		e.queue = append(e.queue, e.held...)
	}
	e.held, e.hold = nil, false
	e.more.Signal()
}
