package ecstest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/uuid"
)

// event returns the state of a task as an EventBridge event, in which times are texts.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs_task_events.html
func event(t types.Task, updated time.Time) []byte {
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	t.Tags = nil
	var detail map[string]any
	if err := json.Unmarshal(wire(&t), &detail); err != nil {
		panic(err)
	}
	for name, value := range detail {
		if seconds, ok := value.(float64); ok && strings.HasSuffix(name, "At") {
			detail[name] = stamp(time.UnixMilli(int64(seconds * 1000)))
		}
	}
	detail["updatedAt"] = stamp(updated)
	text, err := json.Marshal(map[string]any{
		"version": "0", "id": uuid.NewString(), "detail-type": "ECS Task State Change", "source": "aws.ecs",
		"account": Account, "region": Region, "time": updated.UTC().Format(time.RFC3339), "resources": []string{*t.TaskArn},
		"detail": detail,
	})
	if err != nil {
		panic(err)
	}
	return text
}

// send delivers an event in another goroutine, unless events are held. The caller holds mu.
func (s *Server) send(event []byte) {
	switch {
	case s.hold:
		s.held = append(s.held, event)
	case s.events != nil:
		s.events <- event
	}
}

// Hold delays events until Release.
func (s *Server) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = true
}

// Release delivers the delayed events, each this many times, in reverse order if reversed, and ends
// Hold.
func (s *Server) Release(times int, reversed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = false
	if reversed {
		slices.Reverse(s.held)
	}
	for _, event := range slices.Repeat(s.held, times) {
		s.send(event)
	}
	s.held = nil
}
