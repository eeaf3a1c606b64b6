package outbox_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkLinearRun delivers the events of many tasks that have changed at once, each in a record.
func BenchmarkLinearRun(b *testing.B) {
	testtools.Linear(b, outbox.MaxBacklog/10, func(n int) func() {
		store := statetest.NewMemory()
		for i := range n {
			events := outbox.NewEvents(outbox.Event{Kind: outbox.ChangeSeen, At: noon, Task: fmt.Sprintf("switch-%05d", i), Seq: 1})
			if _, err := store.Apply(b.Context(), events.Changes()...); err != nil {
				b.Fatal(err)
			}
		}
		taken := &sink{name: "bus"}
		d := outbox.Delivery{Store: store, Apply: store.Apply, Sinks: func() []outbox.Sink { return []outbox.Sink{taken} },
			Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)}
		return func() {
			if report, err := d.Run(b.Context()); err != nil || report.Taken != n || report.Left != 0 {
				b.Fatalf("%+v, %v: want %d events taken", report, err, n)
			}
		}
	})
}
