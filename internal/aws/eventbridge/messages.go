package eventbridge

import (
	"context"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// MessageType is the type of the detail of a message.
const MessageType = "message"

// needPeople are the kinds of events that messages are about.
var needPeople = []outbox.Kind{
	outbox.RunFailed, outbox.RunLost, outbox.TaskRecovered, outbox.RunUnverified, outbox.TaskVerified, outbox.RunWaiting, outbox.DriftFound, outbox.TaskDelayed,
	outbox.ConfigurationRefused,
	outbox.ConsulReplaced, outbox.ConsulLost, outbox.ConsulFound, outbox.TasksUnreadable, outbox.TasksReadable,
}

// Messages sends what people read to the bus of a Sink. A rule cannot join events, and sends an email
// for each: so one thing that happened to many tasks is one message here.
type Messages struct{ *Sink }

var (
	_ outbox.Batcher = Messages{}
	_ outbox.Choosy  = Messages{}
	_ outbox.Patient = Messages{}
)

// Name implements outbox.Sink.
func (Messages) Name() string { return "eventbridge-messages" }

// Wants implements outbox.Choosy.
func (Messages) Wants(e outbox.Event) bool {
	return !e.Quiet && slices.Contains(needPeople, e.Kind) && (e.WaitFor == "" || e.WaitFor == state.WaitApproval)
}

// Patience implements outbox.Patient.
func (Messages) Patience() time.Duration { return notify.GathersFor }

// Most implements outbox.Batcher.
func (Messages) Most() int { return outbox.MaxTasks }

// Deliver implements outbox.Sink.
func (m Messages) Deliver(ctx context.Context, e outbox.Event) error {
	return m.DeliverAll(ctx, []outbox.Event{e})[0]
}

// DeliverAll implements outbox.Batcher.
func (m Messages) DeliverAll(ctx context.Context, events []outbox.Event) []error {
	messages := notify.Messages(events)
	all := list.Map(messages, func(m notify.Message) outbox.Event { return m.Event })
	errs := make([]error, len(events))
	for i, err := range m.send(ctx, all, func(outbox.Event) string { return MessageType }) {
		for _, of := range messages[i].Of {
			errs[of] = err
		}
	}
	return errs
}
