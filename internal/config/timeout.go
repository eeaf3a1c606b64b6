package config

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/config/block"
)

// OwnRunTimeout returns the run_timeout that the task itself sets, nil if it
// takes that of all tasks.
func (t *Task) OwnRunTimeout() *time.Duration { return t.timeout }

// runTimeout checks a run_timeout.
func (l *loader) runTimeout(raw block.Duration) time.Duration {
	if raw.V < 0 {
		l.Fail(raw.Origin, fmt.Sprintf("%s is negative", block.Quoted(raw.V.String())), `a duration such as "30m", or "0s" for no limit`)
	}
	return raw.V
}
