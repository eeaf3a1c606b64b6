package config

import (
	"math"
	"time"

	"github.com/terrapulse/terrapulse/internal/config/block"
)

// OwnBufferPeriod is what a task's own buffer_period says. A field is nil where
// it says nothing.
type OwnBufferPeriod struct {
	Enabled  *bool
	Min, Max *time.Duration
}

// OwnBufferPeriod returns what the task itself says of its buffer period: what
// it says nothing of follows from that, or is that of all tasks.
func (t *Task) OwnBufferPeriod() OwnBufferPeriod { return t.buffer }

func (raw *rawTaskBuffer) own() OwnBufferPeriod {
	return OwnBufferPeriod{Enabled: written(raw.Enabled), Min: written(raw.Min), Max: written(raw.Max)}
}

// written is a copy of a value, so that what was read from the file can go.
func written[T bool | time.Duration](v block.Value[T]) *T {
	if !v.Set {
		return nil
	}
	return new(v.V)
}

// globalBuffer resolves the buffer_period of all tasks. Its keys default one by
// one, so that a min above the default max raises max.
func (l *loader) globalBuffer(raw *rawGlobalBuffer) BufferPeriod {
	l.notNegative(raw.Min)
	l.notNegative(raw.Max)
	if !raw.Enabled.V {
		return BufferPeriod{}
	}
	return BufferPeriod{Enabled: true, Min: raw.Min.V, Max: max(raw.Min.V, raw.Max.V)}
}

// taskBuffer resolves the buffer_period of a task: what it does not set follows
// from what it does set, and only a block that sets nothing takes the parent's.
func (l *loader) taskBuffer(raw *rawTaskBuffer, parent BufferPeriod) BufferPeriod {
	l.notNegative(raw.Min)
	l.notNegative(raw.Max)
	if !raw.Enabled.Set && !raw.Min.Set && !raw.Max.Set {
		return parent
	}
	if raw.Enabled.Set && !raw.Enabled.V {
		return BufferPeriod{}
	}
	b := BufferPeriod{Enabled: true, Min: raw.Min.V}
	if !raw.Min.Set {
		b.Min = parent.Min
		if !parent.Enabled {
			b.Min = 5 * time.Second
		}
	}
	switch {
	case raw.Max.Set:
		b.Max = raw.Max.V
	case b.Min > math.MaxInt64/4:
		b.Max = b.Min
	default:
		b.Max = 4 * b.Min
	}
	b.Max = max(b.Min, b.Max)
	return b
}

func (l *loader) notNegative(d block.Duration) {
	if d.V < 0 {
		l.Fail(d.Origin, "buffer_period: cannot be negative: "+block.Quoted(d.Text), `a duration such as "5s"`)
	}
}
