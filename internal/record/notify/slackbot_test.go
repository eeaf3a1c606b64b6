package notify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/notify/slacktest"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// chat is a bot's sink, its store and the workspace.
type chat struct {
	*testing.T
	slack *slacktest.Slack
	store *statetest.Faulty
	spec  notify.Spec
	sink  outbox.Batcher
	n     int
	now   time.Time
}

// timeout is that of the sink.
const timeout = 2 * time.Second

// newChat returns a workspace and a bot, whose block has further keys.
func newChat(t *testing.T, keys ...string) *chat {
	t.Helper()
	c := &chat{T: t, slack: slacktest.Start(t), store: &statetest.Faulty{Store: statetest.NewMemory()}, now: time.Now()}
	c.spec = load(t, fmt.Sprintf(`notify "slack" {
  token   = "{{ env \"SLACK_TOKEN\" }}"
  channel = %q
  api_url = %q
  timeout = %q
  %s
}`, slacktest.Channel, c.slack.URL, timeout, strings.Join(keys, "\n"))).Notify[0]
	t.Setenv("SLACK_TOKEN", slacktest.Token)
	c.restart()
	return c
}

// restart is what another process, or this one after a crash, knows.
func (c *chat) restart() { c.sink = c.process() }

// process is the sink of a process that has just begun.
func (c *chat) process() outbox.Batcher {
	set := &notify.Set{Store: c.store, Now: func() time.Time { return c.now }, Evaluate: func(_ context.Context, _, text string) (string, error) {
		return strings.ReplaceAll(text, `{{ env "SLACK_TOKEN" }}`, slacktest.Token), nil
	}}
	return set.Sinks([]notify.Spec{c.spec})[0].(outbox.Batcher)
}

// event is an event of a task with another id than all before.
func (c *chat) event(kind outbox.Kind, task string) outbox.Event {
	c.n++
	e := outbox.Event{ID: fmt.Sprintf("e%d.0", c.n), Kind: kind, Seq: uint64(c.n), At: noon.Add(time.Duration(c.n) * time.Second), Task: task, Run: "r1"}
	switch kind {
	case outbox.RunWaiting:
		e.WaitFor, e.Plan, e.Detail = state.WaitApproval, fmt.Sprintf("plan-%d-0123456789", c.n), "every plan of the task needs an approval"
	case outbox.PlanApproved:
		e.By = "ann"
	case outbox.RunFailed:
		e.Error, e.Failures = "no route to the firewall", 1
	}
	return e
}

// deliver delivers events as an outbox does: what is not taken comes again, also after a crash.
func (c *chat) deliver(crash bool, events ...outbox.Event) {
	c.Helper()
	for try := 0; len(events) > 0; try++ {
		if try == 30 {
			c.Fatalf("%d events were never taken", len(events))
		}
		var left []outbox.Event
		for i, err := range c.sink.DeliverAll(c.Context(), events) {
			if err == nil {
				continue
			}
			left = append(left, events[i])
			if down := new(outbox.DownError); errors.As(err, &down) && i == 0 {
				c.now = c.now.Add(down.After) // it rests meanwhile
			}
		}
		if events = left; crash && len(left) > 0 {
			c.restart()
		}
	}
}

// thread returns the first message of the only thread, and its replies.
func (c *chat) thread() (first slacktest.Message, replies []slacktest.Message) {
	c.Helper()
	all := c.slack.Messages("")
	if len(all) != 1 {
		c.Fatalf("there are %d messages beside replies: %v", len(all), all)
	}
	return all[0], c.slack.Messages(all[0].TS)
}

func (c *chat) says(text string, want ...string) {
	c.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			c.Errorf("the message does not say %q:\n%s", w, text)
		}
	}
}

func TestBot_AnIncidentIsOneThreadWhoseFirstMessageShowsTheLatestState(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunWaiting, "web"))
	first, _ := c.thread()
	c.says(first.Text, "*web: run waits*", "terrapulse approve -plan=plan-1-0 web")
	c.deliver(false, c.event(outbox.PlanApproved, "web"))
	c.deliver(false, c.event(outbox.RunSucceeded, "web"))
	first, replies := c.thread()
	if len(replies) != 2 {
		t.Fatalf("there are %d replies", len(replies))
	}
	c.says(replies[0].Text, "*web: plan approved*", "By: ann")
	c.says(replies[1].Text, "*web: run succeeded*")
	c.says(first.Text, "*web: run succeeded*", "_It began with:_ *web: run waits*")
	if strings.HasPrefix(first.Text, "*web: run waits*") {
		t.Error("the first message still says that the run waits")
	}

	c.deliver(false, c.event(outbox.RunFailed, "web")) // another incident
	if all := c.slack.Messages(""); len(all) != 2 {
		t.Errorf("after the end of the incident there are %d threads", len(all))
	}
	c.deliver(false, c.event(outbox.RunSucceeded, "dns")) // no incident
	if all := c.slack.Messages(""); len(all) != 2 {
		t.Errorf("a success of a task without an incident is a message: %v", all)
	}
}

func TestBot_ASupersededPlanIsMarkedAndTheNextOneIsAnotherThread(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunWaiting, "web"))
	superseded := c.event(outbox.RunSuperseded, "web")
	if !c.sink.(outbox.Choosy).Wants(superseded) {
		t.Fatal("the bot does not hear that the plan is superseded")
	}
	c.deliver(false, superseded)
	first, replies := c.thread()
	c.says(first.Text, "*web: run superseded*")
	if len(replies) != 0 {
		t.Errorf("a step is a reply: %v", replies)
	}
	c.deliver(false, c.event(outbox.RunWaiting, "web"))
	if all := c.slack.Messages(""); len(all) != 2 {
		t.Errorf("there are %d threads", len(all))
	}
	c.deliver(false, c.event(outbox.RunSuperseded, "dns")) // of which nobody has heard
	if all := c.slack.Messages(""); len(all) != 2 {
		t.Errorf("a step of a task without a thread is a message: %v", all)
	}
}

// Each run that is not verified has succeeded: the thread must not say that all is well.
func TestBot_TaskThatIsNotVerifiedIsOneThreadUntilItIs(t *testing.T) {
	c := newChat(t)
	unverified := func() outbox.Event {
		e := c.event(outbox.RunUnverified, "web")
		e.Detail = "vip failed: connection refused"
		return e
	}
	c.deliver(false, c.event(outbox.RunWaiting, "web"))
	c.deliver(false, c.event(outbox.RunSucceeded, "web"))
	c.deliver(false, unverified())
	c.deliver(false, c.event(outbox.RunSucceeded, "web")) // a retry, which is not verified either
	repeated := unverified()
	if repeated.Quiet = true; c.sink.(outbox.Choosy).Wants(repeated) {
		t.Error("people hear of each run that fails the same verification")
	}
	threads := c.slack.Messages("")
	c.says(threads[1].Text, "*web: the run is applied and not verified", "vip failed: connection refused")
	c.deliver(false, c.event(outbox.RunSucceeded, "web"))
	c.deliver(false, c.event(outbox.TaskVerified, "web"))
	threads = c.slack.Messages("")
	c.says(threads[1].Text, "*web: the task is verified again*", "_It began with:_ *web: the run is applied and not verified")
	if replies := c.slack.Messages(threads[1].TS); len(replies) != 1 {
		t.Errorf("the replies are %s", headlines(replies))
	}
	c.deliver(false, unverified())
	if all := headlines(c.slack.Messages("")); strings.Count(all, "not verified") != 1 || strings.Count(all, "verified again") != 1 {
		t.Errorf("after the end of the incident, the next one is no other thread: %s", all)
	}
}

func TestBot_TasksThatFailTogetherAreOneThread(t *testing.T) {
	c := newChat(t)
	var failed, recovered []outbox.Event
	for _, task := range []string{"a", "b", "c"} {
		failed, recovered = append(failed, c.event(outbox.RunFailed, task)), append(recovered, c.event(outbox.TaskRecovered, task))
	}
	c.deliver(false, failed...)
	c.deliver(false, recovered[0])
	first, replies := c.thread()
	c.says(first.Text, "*3 tasks: run failed*", "2 of 3 tasks are still concerned")
	if len(replies) != 1 {
		t.Errorf("there are %d replies", len(replies))
	}
	c.deliver(false, recovered[1:]...)
	first, replies = c.thread()
	c.says(first.Text, "0 of 3 tasks are still concerned")
	if len(replies) != 2 {
		t.Errorf("there are %d replies", len(replies))
	}
	c.deliver(false, c.event(outbox.RunFailed, "b"))
	if all := c.slack.Messages(""); len(all) != 2 {
		t.Errorf("there are %d threads", len(all))
	}
}

// A message is posted once, whichever answers are lost, and at whichever moment the process dies.
func TestBot_NoMessageIsPostedTwice(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for name, fault := range map[string]slacktest.Fault{
			"lost": {Lose: true}, "garbled": {Garble: true}, "internal error": {Code: "internal_error"}, "rate": {Status: 429, RetryAfter: "1"}, "down": {Status: 503},
		} {
			for _, method := range []string{"chat.postMessage", "chat.update", "conversations.history"} {
				t.Run(fmt.Sprintf("%s of %s, crash %v", name, method, crash), func(t *testing.T) {
					c := newChat(t)
					fault.Method = method
					c.slack.Next(fault)
					if method == "conversations.history" {
						c.slack.Next(fault)
					}
					c.deliver(crash, c.event(outbox.RunWaiting, "web"))
					c.slack.Next(fault)
					c.deliver(crash, c.event(outbox.PlanApproved, "web"))
					c.slack.Next(fault)
					c.deliver(crash, c.event(outbox.RunSucceeded, "web"))
					first, replies := c.thread()
					if len(replies) != 2 || !strings.HasPrefix(first.Text, "*web: run succeeded*") {
						t.Errorf("the thread has %d replies, and begins with %q", len(replies), first.Text)
					}
				})
			}
		}
	}
}

func TestBot_NoMessageIsPostedTwiceInRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, random := newChat(t), rand.New(rand.NewPCG(seed, 1))
			fails := func([]state.Change) error {
				if random.IntN(8) == 0 {
					return errors.New("the store does not answer")
				}
				return nil
			}
			c.store.Before, c.store.After = fails, fails
			methods := []string{"chat.postMessage", "chat.update", "conversations.history", "conversations.replies", ""}
			want := 0
			kinds := []outbox.Kind{outbox.RunFailed, outbox.RunFailed, outbox.RunWaiting, outbox.PlanApproved, outbox.TaskRecovered}
			for range 4 {
				for _, kind := range kinds {
					for range random.IntN(3) {
						c.slack.Next(slacktest.Fault{Method: methods[random.IntN(len(methods))], Lose: random.IntN(2) == 0, Garble: random.IntN(2) == 0})
					}
					c.deliver(random.IntN(2) == 0, c.event(kind, "web"))
					want++
				}
			}
			firsts := c.slack.Messages("")
			got := len(firsts)
			for _, m := range firsts {
				got += len(c.slack.Messages(m.TS))
			}
			if got != want || len(firsts) != 4 {
				t.Errorf("%d messages in %d threads for %d events of 4 incidents", got, len(firsts), want)
			}
		})
	}
}

func TestBot_SaysWhatAPersonHasToDo(t *testing.T) {
	for code, want := range map[string]string{"token_revoked": "set its new token", "is_archived": "set channel", "channel_not_found": "set channel", "not_in_channel": "invite the bot", "missing_scope": "chat:write"} {
		c := newChat(t)
		c.slack.Refuse(code)
		errs := c.sink.DeliverAll(t.Context(), []outbox.Event{c.event(outbox.RunFailed, "web"), c.event(outbox.RunFailed, "dns"), c.event(outbox.Paused, "")})
		for _, err := range errs {
			down := new(outbox.DownError)
			if !errors.As(err, &down) || !fault.NeedsPerson(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), slacktest.Token) {
				t.Errorf("%s: %v", code, err)
			}
		}
		c.slack.Refuse("")
		c.deliver(false, c.event(outbox.RunFailed, "web"))
	}
}

func TestBot_WaitsAsLongAsSlackSays(t *testing.T) {
	c := newChat(t)
	c.slack.Next(slacktest.Fault{Method: "chat.postMessage", Status: 429, RetryAfter: "30"})
	err := c.sink.DeliverAll(t.Context(), []outbox.Event{c.event(outbox.RunFailed, "web")})[0]
	if down := new(outbox.DownError); !errors.As(err, &down) || down.After != 30*time.Second {
		t.Errorf("the error is %v", err)
	}
}

func TestBot_AThreadThatAPersonHasDeletedBeginsAgain(t *testing.T) {
	c := newChat(t)
	c.deliver(false, c.event(outbox.RunFailed, "web"))
	first, _ := c.thread()
	c.slack.Delete(first.TS)
	c.deliver(false, c.event(outbox.RunFailed, "web"))
	c.deliver(false, c.event(outbox.TaskRecovered, "web"))
	first, replies := c.thread()
	if len(replies) != 1 || !strings.HasPrefix(first.Text, "*web: the task has recovered") {
		t.Errorf("the thread has %d replies, and begins with %q", len(replies), first.Text)
	}
}

// Without the right to read the channel, a message whose answer was lost comes twice, and none is missing.
func TestBot_WithoutTheRightToReadAMessageIsNotLost(t *testing.T) {
	c := newChat(t)
	c.slack.Next(slacktest.Fault{Method: "chat.postMessage", Lose: true}, slacktest.Fault{Method: "conversations.history", Code: "missing_scope"})
	c.deliver(true, c.event(outbox.RunFailed, "web"))
	if n := len(c.slack.Messages("")); n != 2 {
		t.Errorf("there are %d messages", n)
	}
}

func TestBot_KeepsFewThreads(t *testing.T) {
	c := newChat(t)
	for i := range 400 {
		e := c.event(outbox.RunWaiting, fmt.Sprintf("task-%d", i))
		e.Detail = strings.Repeat("x", 2000)
		c.deliver(false, e)
	}
	recs, err := c.store.List(t.Context(), "threads/")
	if err != nil || len(recs) != 1 || len(recs[0].Value) > 80<<10 || len(recs[0].Value) < 30<<10 {
		t.Fatalf("%v, %d records", err, len(recs))
	}
	c.deliver(false, c.event(outbox.PlanApproved, "task-399"))
	if last := c.slack.Messages(""); len(last) != 400 {
		t.Errorf("there are %d messages beside replies", len(last))
	}
}
