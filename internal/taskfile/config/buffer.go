package config

import (
	"math"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// OwnBufferPeriod is the buffer_period of a task's block. A field is nil if its key
// is not set.
type OwnBufferPeriod struct {
	Enabled  *bool
	Min, Max *time.Duration
}

// OwnBufferPeriod returns the buffer_period of the task's block.
func (t *Task) OwnBufferPeriod() OwnBufferPeriod { return t.buffer }

// globalBuffer resolves the buffer_period of all tasks. Each key has its own
// default: a min above the default max raises max.
func (l *loader) globalBuffer(b *BufferPeriod) BufferPeriod {
	l.notNegative(rawOf(l, &b.Min))
	l.notNegative(rawOf(l, &b.Max))
	if !b.Enabled {
		return BufferPeriod{}
	}
	return BufferPeriod{Enabled: true, Min: b.Min, Max: max(b.Min, b.Max)}
}

// taskBuffer resolves the buffer_period of a task. If the block sets a key, the
// others follow from it; otherwise the parent's values hold.
func (l *loader) taskBuffer(raw *rawTaskBuffer, parent BufferPeriod) BufferPeriod {
	if !raw.Enabled.Set && !raw.Min.Set && !raw.Max.Set {
		return parent
	}
	if raw.Enabled.Set && !raw.Enabled.V {
		return BufferPeriod{}
	}
	l.notNegative(&raw.Min)
	l.notNegative(&raw.Max)
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

func (l *loader) notNegative(d *block.Duration) {
	if d.V < 0 {
		l.Fail(d.Origin, "buffer_period: cannot be negative: "+block.Quoted(d.Text), `a duration such as "5s"`)
	}
}
