package notify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Evaluate returns a text with its templates evaluated. The key says in errors
// where the text is from; errors hold no values.
type Evaluate func(ctx context.Context, key, text string) (string, error)

// Sink is the sink of a block.
type Sink struct {
	Spec
	evaluate Evaluate
	store    state.Store      // nil if nothing is kept
	now      func() time.Time // the time of a bot's messages

	mu     sync.Mutex
	sentID string // event of the message that was posted last, and what Slack calls it
	sentTS string
	tries  string            // version of the record of the message that this process tried last
	texts  map[string]string // evaluated
	looked time.Time
}

var _ outbox.Choosy = (*Sink)(nil)

// New returns the sink of a block.
func New(s Spec, evaluate Evaluate) *Sink { return &Sink{Spec: s, evaluate: evaluate, now: time.Now} }

// Name implements outbox.Sink.
func (s *Sink) Name() string { return s.Spec.Name }

// Wants implements outbox.Choosy. A bot also gets what ends the threads that it keeps, or gives them another name.
func (s *Sink) Wants(e outbox.Event) bool {
	if _, threaded := s.Target.(*bot); threaded {
		switch role := incidents[e.Kind].role; {
		case role == leaves, role == moves:
			return s.about(e)
		case role != 0 && e.Kind.Step(): // it ends the incident that this began
			began := e
			began.Kind = outbox.RunWaiting
			return s.asks(e) || s.asks(began)
		}
	}
	return s.asks(e)
}

// asks reports whether the block says that the sink is to be given the event.
func (s *Sink) asks(e outbox.Event) bool {
	if s.forPeople() && e.WaitFor != "" && !e.WaitFor.ForPeople() {
		return false // nobody has to do anything while another system works
	}
	if s.Messages && (e.Quiet || len(s.Events) == 0 && e.Kind.Step()) {
		return false
	}
	return matchesAny(s.Events, string(e.Kind)) && s.about(e)
}

// about reports whether the event is about one of the tasks that the block names.
func (s *Sink) about(e outbox.Event) bool {
	return matchesAny(s.Tasks, e.Task) || e.Former != "" && matchesAny(s.Tasks, e.Former) ||
		slices.ContainsFunc(e.Tasks, func(task string) bool { return matchesAny(s.Tasks, task) }) ||
		len(e.Tasks) > 0 && e.Count > len(e.Tasks) // perhaps
}

// matchesAny reports whether a text is that of one of the patterns, or there are none.
func matchesAny(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return text != "" && matches(p, text) })
}

// GathersFor is how long a sink for people waits for more events.
const GathersFor = 5 * time.Second

// Patience implements outbox.Patient.
func (s *Sink) Patience() time.Duration {
	if s.forPeople() {
		return GathersFor
	}
	return 0
}

// Most implements outbox.Batcher.
func (s *Sink) Most() int {
	if s.forPeople() {
		return outbox.MaxTasks
	}
	return 1
}

// DeliverAll implements outbox.Batcher. Events of one kind become one message.
func (s *Sink) DeliverAll(ctx context.Context, events []outbox.Event) []error {
	if b, ok := s.Target.(*bot); ok && s.store != nil {
		return s.deliverBy(ctx, b, events)
	}
	errs := make([]error, len(events))
	var down error
	for _, message := range Messages(events) {
		err := down
		if err == nil {
			err = s.Deliver(ctx, message.Event)
		}
		if errors.As(err, new(*outbox.DownError)) {
			down = err
		}
		for _, i := range message.Of {
			errs[i] = err
		}
	}
	return errs
}

// deliverBy delivers events by a bot.
func (s *Sink) deliverBy(ctx context.Context, b *bot, events []outbox.Event) []error {
	// A message takes up to three requests.
	limit := s.Timeout * time.Duration(3*len(events))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	texts, err := s.lookUp(ctx)
	if err != nil {
		return slices.Repeat([]error{&outbox.DownError{Err: err}}, len(events))
	}
	errs := b.deliver(ctx, s, events, texts)
	for i, err := range errs {
		if err != nil {
			s.forgetTexts()
			errs[i] = &hidden{err, s.redact(err.Error(), texts)}
		}
	}
	return errs
}

func (s *Sink) noteSent(id, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sentID, s.sentTS = id, ts
}

// noteTried notes that this process has tried to post a message, and has noted that with this version of the
// record of the threads.
func (s *Sink) noteTried(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = version
}

// tried reports whether the latest attempt to post a message is one of this process.
func (s *Sink) tried(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries == version
}

// sent is what Slack calls the message about the event, if this process has posted it last.
func (s *Sink) sent(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sentID != id {
		return ""
	}
	return s.sentTS
}

// forgetTexts has the values looked up again: a secret may have been replaced.
func (s *Sink) forgetTexts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = nil
}

// Deliver implements outbox.Sink.
func (s *Sink) Deliver(ctx context.Context, e outbox.Event) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("no answer within %s", s.Timeout))
	defer cancel()
	texts, err := s.lookUp(ctx)
	if err != nil {
		return &outbox.DownError{Err: err}
	}
	if err = s.send(ctx, e, texts); err == nil {
		return nil
	}
	s.forgetTexts()
	return &hidden{err, s.redact(err.Error(), texts)}
}

// lookUp returns the evaluated texts.
func (s *Sink) lookUp(ctx context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts != nil && time.Since(s.looked).Abs() < keep {
		return s.texts, nil
	}
	texts := map[string]string{}
	for key, text := range s.Texts() {
		value, err := s.evaluate(ctx, block.Joined(s.At.Path, key), text)
		if err != nil {
			return nil, err
		}
		texts[key] = strings.TrimSpace(value)
	}
	s.texts, s.looked = texts, time.Now()
	return texts, nil
}

// redact removes what is secret from an error.
func (s *Sink) redact(text string, texts map[string]string) string {
	written := s.Texts()
	var secrets []string
	for key, value := range texts {
		secrets = append(append(secrets, value), strings.Fields(value)...)
		if u, err := url.Parse(value); err == nil && u.Host != "" {
			secrets = append(secrets, u.RawQuery, u.User.String(), u.RequestURI())
			if IsSecret(block.Joined(s.At.Path, key)) || value != written[key] {
				secrets = append(secrets, u.Path, path.Base(u.Path))
			}
			if value != written[key] {
				secrets = append(secrets, u.Host, u.Hostname())
			}
		}
	}
	if c, is := s.Target.(*command); is {
		secrets = append(secrets, c.Argv[1:]...)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		if len(secret) > 3 {
			text = strings.ReplaceAll(text, secret, "(hidden)")
		}
	}
	return text
}

// hidden is an error whose text has no secrets.
type hidden struct {
	error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.error }
