package notify_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/notify/slacktest"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// moved is the event that a task has another name.
func (c *chat) moved(former, task string) outbox.Event {
	e := c.event(outbox.TaskMoved, task)
	e.Former, e.Run = former, ""
	return e
}

// threads returns how many messages are not replies.
func (c *chat) threads() int { return len(c.slack.Messages("")) }

// headlines returns the first lines of messages.
func headlines(all []slacktest.Message) string {
	var lines []string
	for _, m := range all {
		line, _, _ := strings.Cut(m.Text, "\n")
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

func TestBot_ThreadOfARenamedTaskContinuesUnderTheNewName(t *testing.T) {
	for name, crash := range map[string]bool{"": false, "and each answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t)
			c.deliver(false, c.event(outbox.RunFailed, "lb"))
			if crash {
				c.slack.Next(slacktest.Fault{Method: "chat.postMessage", Lose: true}, slacktest.Fault{Method: "chat.update", Lose: true})
			}
			c.deliver(crash, c.moved("lb", "edge"))
			first, replies := c.thread()
			c.says(first.Text, "*edge: the task has another name", "Before: lb", "_It began with:_ *lb: run failed")
			if len(replies) != 1 {
				t.Errorf("the replies are %s", headlines(replies))
			}
			c.deliver(crash, c.event(outbox.RunFailed, "edge"))
			c.deliver(crash, c.event(outbox.TaskRecovered, "edge"))
			first, replies = c.thread()
			if c.says(first.Text, "*edge: the task has recovered"); len(replies) != 3 {
				t.Errorf("the replies are %s", headlines(replies))
			}
			c.deliver(false, c.event(outbox.RunFailed, "lb")) // another task, which has the name now
			c.deliver(false, c.event(outbox.RunFailed, "edge"))
			if n := c.threads(); n != 3 {
				t.Errorf("there are %d threads", n)
			}
		})
	}
}

func TestBot_AllThreadsOfARenamedTaskContinueUnderTheNewName(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.HoldBegun, "lb"))
	c.deliver(false, c.event(outbox.RunFailed, "lb"), c.event(outbox.RunFailed, "db"))
	c.deliver(false, c.moved("lb", "edge"))
	firsts := c.slack.Messages("")
	if len(firsts) != 2 || len(c.slack.Messages(firsts[0].TS)) != 0 || len(c.slack.Messages(firsts[1].TS)) != 1 {
		t.Fatalf("there are the threads %s, with the replies %s and %s", headlines(firsts), headlines(c.slack.Messages(firsts[0].TS)), headlines(c.slack.Messages(firsts[1].TS)))
	}
	c.says(firsts[0].Text, "*edge: the task has another name", "_It began with:_ *lb: the task is on hold")
	c.says(firsts[1].Text, "2 of 2 tasks are still concerned")
	c.deliver(false, c.event(outbox.HoldEnded, "edge"))
	c.deliver(false, c.event(outbox.TaskRecovered, "edge"))
	firsts = c.slack.Messages("")
	if len(firsts) != 2 || len(c.slack.Messages(firsts[0].TS)) != 1 || len(c.slack.Messages(firsts[1].TS)) != 2 {
		t.Fatalf("there are the threads %s", headlines(firsts))
	}
	c.says(firsts[0].Text, "*edge: the task is released")
	c.says(firsts[1].Text, "1 of 2 tasks are still concerned")
}

// What waits under the former name is superseded by the rename: that ends its thread, and the next plan is
// another one.
func TestBot_PlanThatWaitsDuringARenameIsAnotherThreadUnderTheNewName(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunWaiting, "lb"))
	c.deliver(false, c.event(outbox.RunSuperseded, "lb"), c.moved("lb", "edge"))
	first, replies := c.thread()
	if c.says(first.Text, "*lb: run superseded*"); len(replies) != 0 {
		t.Errorf("the replies are %s", headlines(replies))
	}
	c.deliver(false, c.event(outbox.RunWaiting, "edge"))
	if n := c.threads(); n != 2 {
		t.Errorf("there are %d threads", n)
	}
}

func TestBot_RenameWithoutAThreadIsNoMessage(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.moved("lb", "edge"))
	if n := c.threads(); n != 0 {
		t.Errorf("there are %d messages", n)
	}
	named := newChat(t, `events = ["task_moved"]`)
	named.deliver(false, named.moved("lb", "edge"))
	if n := named.threads(); n != 1 {
		t.Errorf("a sink that names the event gives %d messages", n)
	}
}

func TestBot_ThreadOfARemovedTaskSaysSoAndEnds(t *testing.T) {
	for _, kind := range []outbox.Kind{outbox.TaskRemoved, outbox.TaskForgotten} {
		t.Run(string(kind), func(t *testing.T) {
			c := newChat(t)
			c.deliver(false, c.event(outbox.HoldBegun, "web"))
			c.deliver(false, c.event(outbox.RunFailed, "web"))
			c.deliver(false, c.event(kind, "web"))
			firsts := c.slack.Messages("")
			if len(firsts) != 2 || len(c.slack.Messages(firsts[0].TS)) != 0 || len(c.slack.Messages(firsts[1].TS)) != 1 {
				t.Fatalf("there are the threads %s", headlines(firsts))
			}
			for _, first := range firsts {
				c.says(first.Text, "*web: "+kind.About().Line[:20], "_It began with:_ *web: ")
			}
			c.deliver(false, c.event(outbox.RunFailed, "web")) // it is back
			if n := c.threads(); n != 3 {
				t.Errorf("after its removal there are %d threads", n)
			}
		})
	}
}

func TestBot_RemovalOfOneOfTheTasksOfAThreadLeavesTheOthers(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunFailed, "a"), c.event(outbox.RunFailed, "b"), c.event(outbox.RunFailed, "c"))
	c.deliver(false, c.event(outbox.TaskRemoved, "b"))
	first, replies := c.thread()
	if c.says(first.Text, "2 of 3 tasks are still concerned", "b: a task is not in the configuration"); len(replies) != 1 {
		t.Errorf("the replies are %s", headlines(replies))
	}
	c.deliver(false, c.event(outbox.TaskRemoved, "a"), c.event(outbox.TaskRemoved, "c"), c.event(outbox.TaskRemoved, "without"))
	firsts := c.slack.Messages("")
	if len(firsts) != 2 || !strings.HasPrefix(firsts[1].Text, "*without: a task is not in the configuration") {
		t.Errorf("the messages are %s", headlines(firsts))
	}
	c.says(firsts[0].Text, "0 of 3 tasks are still concerned")
}

// A block that names the events that it wants gets removals and renames for its threads alone.
func TestBot_EventsOfABlockNeedNotNameWhatEndsItsThreads(t *testing.T) {
	c := newChat(t, `events = ["run_failed", "task_recovered"]`, `tasks = ["web*", "lb"]`)
	wants := func(e outbox.Event) bool { return c.sink.(outbox.Choosy).Wants(e) }
	for _, e := range []outbox.Event{c.event(outbox.TaskRemoved, "web"), c.moved("lb", "edge"), c.moved("edge", "lb")} {
		if !wants(e) {
			t.Errorf("it does not get %s of %s", e.Kind, e.Task)
		}
	}
	for _, e := range []outbox.Event{c.event(outbox.TaskRemoved, "db"), c.moved("db", "edge"), c.event(outbox.RunSuperseded, "web"), c.event(outbox.HoldBegun, "web")} {
		if wants(e) {
			t.Errorf("it gets %s of %s", e.Kind, e.Task)
		}
	}
	c.deliver(false, c.event(outbox.TaskRemoved, "web"))
	if n := c.threads(); n != 0 {
		t.Errorf("without a thread there are %d messages", n)
	}
	c.deliver(false, c.event(outbox.RunFailed, "web"))
	c.deliver(false, c.event(outbox.TaskRemoved, "web"))
	if first, replies := c.thread(); len(replies) != 1 || !strings.HasPrefix(first.Text, "*web: a task is not in the configuration") {
		t.Errorf("the thread begins with %q and has the replies %s", first.Text, headlines(replies))
	}
}

// A run that retries is superseded by a change before it begins: the task still fails.
func TestBot_ThreadOfATaskThatFailsDoesNotEndWithASupersededRun(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunFailed, "web"))
	c.deliver(false, c.event(outbox.RunSuperseded, "web"))
	c.deliver(false, c.event(outbox.RunWaiting, "web"))
	c.deliver(false, c.event(outbox.RunSuperseded, "web"))
	c.deliver(false, c.event(outbox.TaskRecovered, "web"))
	first, replies := c.thread()
	if c.says(first.Text, "*web: the task has recovered"); len(replies) != 2 {
		t.Errorf("the replies are %s", headlines(replies))
	}
}

// delivers delivers an event once, as a process.
func (c *chat) delivers(sink outbox.Batcher, e outbox.Event) error {
	return sink.DeliverAll(c.Context(), []outbox.Event{e})[0]
}

// begun waits until a request is at Slack.
func (c *chat) begun(method string) {
	c.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if slices.Contains(c.slack.Calls(), method) {
			return
		}
	}
	c.Fatalf("%s was never called", method)
}

// The leader dies after it has written the event, at each moment of its delivery: the next one delivers it
// once, without waiting for longer than the timeout of the sink.
func TestBot_TakeoverDuringADeliveryPostsOnce(t *testing.T) {
	dies := errors.New("the process dies here")
	for name, prepare := range map[string]func(c *chat){
		"before its delivery": func(*chat) {},
		"before the message is noted": func(c *chat) {
			c.store.Before = func([]state.Change) error { return dies }
		},
		"before the message is posted": func(c *chat) {
			c.store.After = func([]state.Change) error { return dies } // it does not come to the request
		},
		"before the answer comes": func(c *chat) { c.slack.Next(slacktest.Fault{Method: "chat.postMessage", Lose: true}) },
		"after the answer": func(c *chat) {
			n := 0
			c.store.Before = func([]state.Change) error {
				if n++; n > 1 {
					return dies
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t)
			e := c.event(outbox.RunFailed, "web")
			prepare(c)
			if name != "before its delivery" {
				if err := c.delivers(c.sink, e); err == nil {
					t.Fatal("the first process has delivered")
				}
			}
			c.store.Before, c.store.After = nil, nil
			next, began := c.process(), c.now
			for err := c.delivers(next, e); err != nil; err = c.delivers(next, e) {
				down := new(outbox.DownError)
				if !errors.As(err, &down) || down.After <= 0 || c.now.Sub(began) > timeout {
					t.Fatalf("after %s: %v", c.now.Sub(began), err)
				}
				c.now = c.now.Add(down.After)
			}
			c.sink = next
			c.deliver(false, c.event(outbox.TaskRecovered, "web"))
			if first, replies := c.thread(); len(replies) != 1 || !strings.HasPrefix(first.Text, "*web: the task has recovered") {
				t.Errorf("the thread begins with %q and has the replies %s", first.Text, headlines(replies))
			}
		})
	}
}

// sends has a process deliver an event. Its message is on its way until it is released; then the result comes.
func (c *chat) sends(s outbox.Batcher, e outbox.Event) (result <-chan error, release func()) {
	hold, delivered := make(chan struct{}), make(chan error, 1)
	release = sync.OnceFunc(func() { close(hold) })
	c.Cleanup(release)
	c.slack.Next(slacktest.Fault{Method: "chat.postMessage", Hold: hold})
	go func() { delivered <- c.delivers(s, e) }()
	c.begun("chat.postMessage")
	return delivered, release
}

// A process that led before has a message on its way while the next leader delivers the same event.
func TestBot_TwoLeadersAtOncePostOnce(t *testing.T) {
	c := newChat(t)
	e := c.event(outbox.RunFailed, "web")
	before, release := c.sends(c.sink, e)
	next := c.process()
	err := c.delivers(next, e)
	if down := new(outbox.DownError); !errors.As(err, &down) || down.After <= 0 || down.After > timeout || c.threads() != 0 {
		t.Fatalf("the next leader does not wait for the message: %v; %d messages", err, c.threads())
	}
	release()
	if err := <-before; err != nil {
		t.Fatal(err)
	}
	if err := c.delivers(next, e); err != nil {
		t.Fatal(err)
	}
	c.sink = next
	c.deliver(false, c.event(outbox.TaskRecovered, "web"))
	if _, replies := c.thread(); len(replies) != 1 {
		t.Errorf("the replies are %s", headlines(replies))
	}
}

// A process that is frozen for longer than its timeout posts what the next leader has posted. That is one message
// too many, and never a second thread.
func TestBot_FrozenLeaderPostsOneMessageTooManyAndNoSecondThread(t *testing.T) {
	c := newChat(t)
	e := c.event(outbox.RunFailed, "web")
	frozen := c.sink
	before, release := c.sends(frozen, e)
	c.now = c.now.Add(timeout) // by the clock of the next leader
	next := c.process()
	if err := c.delivers(next, e); err != nil {
		t.Fatal(err)
	}
	thread := c.slack.Messages("")[0].TS
	release()
	if err := <-before; err == nil {
		t.Error("the frozen process has noted its message as the thread")
	}
	c.sink = next
	c.deliver(false, c.event(outbox.RunFailed, "web"))
	c.deliver(false, c.event(outbox.TaskRecovered, "web"))
	firsts := c.slack.Messages("")
	if len(firsts) != 2 || len(c.slack.Messages(thread)) != 2 {
		t.Errorf("the messages are %s, and the replies of the thread %s", headlines(firsts), headlines(c.slack.Messages(thread)))
	}
}

// collected is a sink that takes everything.
type collected struct {
	mu  sync.Mutex
	got []outbox.Event
}

func (*collected) Name() string { return "webhook" }

func (s *collected) Deliver(_ context.Context, e outbox.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, e)
	return nil
}

// Slack limits requests: the bot is not heard of before the time that Slack has named, nothing comes twice, and
// other sinks do not wait.
func TestBot_RateLimitDelaysSlackAlone(t *testing.T) {
	for _, method := range []string{"chat.postMessage", "chat.update"} {
		t.Run(method, func(t *testing.T) {
			c, others := newChat(t), new(collected)
			write := func(e outbox.Event) {
				e.At = c.now.Add(-10 * time.Second)
				if _, err := c.store.Apply(t.Context(), outbox.NewEvents(e).Changes()...); err != nil {
					t.Fatal(err)
				}
			}
			d := outbox.Delivery{Store: c.store, Apply: c.store.Apply, Rests: new(outbox.Rests), Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
				Sinks: func() []outbox.Sink { return []outbox.Sink{c.sink, others} }}
			run := func() outbox.Report {
				report, err := d.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return report
			}
			write(c.event(outbox.RunFailed, "web"))
			if report := run(); report.Left != 0 {
				t.Fatalf("%+v", report)
			}
			c.slack.Next(slacktest.Fault{Method: method, Status: 429, RetryAfter: "30"})
			write(c.event(outbox.RunFailed, "web"))
			write(c.event(outbox.Paused, ""))
			if report := run(); report.Left != 2 || !report.Again.Equal(c.now.Add(30*time.Second)) || len(others.got) != 3 {
				t.Fatalf("%+v, now it is %s, and the other sink has %d events", report, c.now, len(others.got))
			}
			c.slack.Calls()
			c.now = c.now.Add(29 * time.Second)
			if run(); len(c.slack.Calls()) != 0 {
				t.Error("the bot sends requests before the time that Slack has named")
			}
			c.now = c.now.Add(time.Second)
			if report := run(); report.Left != 0 {
				t.Fatalf("%+v", report)
			}
			firsts := c.slack.Messages("")
			if len(firsts) != 2 || len(c.slack.Messages(firsts[0].TS)) != 1 {
				t.Errorf("the messages are %s, the replies of the first one %s", headlines(firsts), headlines(c.slack.Messages(firsts[0].TS)))
			}
		})
	}
}
