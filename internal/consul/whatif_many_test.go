package consul

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// The answer to a what-if about 1,000 tasks that cannot be read fits into each store, and still says why.
func TestSort_ErrorsOfManyTasksFitIntoOneRecord(t *testing.T) {
	for _, n := range []int{1, 1000} {
		s, tasks := &Supposed{}, []*config.Task(nil)
		for i := range n {
			s.tasks = append(s.tasks, supposedTask{err: errors.New("read the instances of service web: 403 Permission denied" + strings.Repeat(" and more", 500))})
			tasks = append(tasks, &config.Task{Name: fmt.Sprintf("task-%d", i)})
		}
		var q state.Question
		if concerned := s.Sort(&q, tasks, nil); len(concerned) != 0 || len(q.Unreadable) != n {
			t.Fatalf("%d concerned, %d unreadable", len(concerned), len(q.Unreadable))
		}
		if size := len(state.Encode(q)); size > state.MaxBytes {
			t.Errorf("%d tasks take %d bytes, more than %d", n, size, state.MaxBytes)
		}
		if text := q.Unreadable[0].Error; !strings.Contains(text, "403 Permission denied") || n == 1 && len(text) < state.MaxText {
			t.Errorf("of %d tasks, one says %q", n, text)
		}
	}
}
