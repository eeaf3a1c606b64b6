package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// lookBack is how far before its attempt a message is looked for: clocks differ.
const lookBack = 10 * time.Minute

// bot posts messages with the token of a bot: one thread for each incident, whose first message always
// shows the latest state.
//
// Slack does not recognise a message that is sent twice. So each one carries the id of its event as
// metadata, and is noted in the store before it is sent. If no answer comes, or the process dies, the
// message is looked for in the channel before it is sent again.
type bot struct{ API, Token, Channel string }

// Texts implements Target.
func (b *bot) Texts() map[string]string { return map[string]string{"token": b.Token} }

// send implements Target, for a message of its own.
func (b *bot) send(ctx context.Context, e outbox.Event, texts map[string]string) error {
	_, err := b.postMessage(ctx, texts["token"], e, "")
	return err
}

// deliveryOf is a delivery of messages by a bot.
type deliveryOf struct {
	*bot
	*book
	sink  *Sink
	token string
}

func (d *deliveryOf) now() time.Time { return d.sink.now() }

// deliver delivers events, no two of which are of one task, and returns the error of each.
func (b *bot) deliver(ctx context.Context, s *Sink, events []outbox.Event, texts map[string]string) []error {
	known, err := openBook(ctx, s.store, s.Name())
	if err != nil {
		return slices.Repeat([]error{&outbox.DownError{Err: err}}, len(events))
	}
	errs := make([]error, len(events))
	d := &deliveryOf{bot: b, book: known, sink: s, token: texts["token"]}
	var down error // then the turn of the other messages does not come
	for _, group := range d.groups(events) {
		err := down
		if err == nil {
			err = d.message(ctx, chosen(events, group))
		}
		if errors.As(err, new(*outbox.DownError)) {
			down = err
		}
		for _, n := range group {
			errs[n] = err
		}
	}
	return errs
}

// chosen returns the events at the indexes.
func chosen(events []outbox.Event, at []int) []outbox.Event {
	return list.Map(at, func(i int) outbox.Event { return events[i] })
}

// groups returns the indexes of events that are one message: first those of a message that may be in
// Slack already, then for each thread those of one kind.
func (d *deliveryOf) groups(events []outbox.Event) (all [][]int) {
	left := map[int][]int{} // by the place of the thread
	var order []int
	var before []int
	for i, e := range events {
		if d.Data.Trying.has(e) {
			before = append(before, i)
			continue
		}
		at := d.Data.of(e)
		if left[at] == nil {
			order = append(order, at)
		}
		left[at] = append(left[at], i)
	}
	if before != nil {
		all = append(all, before)
	}
	for _, at := range order {
		for _, group := range groups(chosen(events, left[at])) {
			for i := range group {
				group[i] = left[at][group[i]]
			}
			all = append(all, group)
		}
	}
	return all
}

// message delivers the message about events of one incident, or of several that begin together.
func (d *deliveryOf) message(ctx context.Context, events []outbox.Event) error {
	all := make([]int, len(events))
	for i := range all {
		all[i] = i
	}
	e, thread := merged(events, all), ""
	if t := d.Data.Trying; t.has(e) && t.Noted {
		return nil // the answer of the store was lost
	}
	at := d.Data.of(events[0])
	if at >= 0 {
		thread = d.Data.Open[at].TS
	}
	switch asked := d.sink.asks(e); {
	case at < 0 && !asked:
		return nil
	case incidents[e.Kind].role == stops && !asked:
		return d.conclude(ctx, e, events, thread, "")
	}
	ts, err := d.posted(ctx, e, events, thread)
	if err == nil && ts == "" {
		ts, err = d.postNew(ctx, e, events, &thread)
	}
	if err != nil {
		return err
	}
	d.sink.noteSent(e.ID, ts)
	return d.conclude(ctx, e, events, thread, ts)
}

// posted returns the message if it was posted by an attempt before, and "" if it was not. An attempt of another
// process, which led before, may still be under way: until it has ended, nothing is sent.
func (d *deliveryOf) posted(ctx context.Context, e outbox.Event, events []outbox.Event, thread string) (string, error) {
	t := d.Data.Trying
	if !t.has(e) {
		return "", nil
	}
	if ts := d.sink.sent(e.ID); ts != "" {
		return ts, nil
	}
	if now, timeout := d.now(), d.sink.Timeout; !d.sink.tried(d.Version) && !clock.Passed(t.At, timeout, now, timeout) {
		return "", &outbox.DownError{Err: errors.New("another process is perhaps sending this message at this moment"), After: t.At.Add(timeout).Sub(now)}
	}
	return d.find(ctx, d.token, t.Events[0], t.Thread, t.At)
}

// postNew posts the message, after it was noted. A thread whose first message is gone is forgotten:
// then the message begins another one.
func (d *deliveryOf) postNew(ctx context.Context, e outbox.Event, events []outbox.Event, thread *string) (string, error) {
	attempt, cancel := context.WithTimeoutCause(ctx, d.sink.Timeout, fmt.Errorf("no answer within %s", d.sink.Timeout))
	defer cancel()
	next, at := d.Data, d.now()
	next.Trying = &trying{Events: list.Map(events, func(e outbox.Event) string { return e.ID }), Thread: *thread, At: at}
	if err := d.write(attempt, next, at); err != nil {
		return "", &outbox.DownError{Err: err}
	}
	d.sink.noteTried(d.Version)
	ts, err := d.postMessage(attempt, d.token, e, *thread)
	if *thread != "" && refusedWith(err, "thread_not_found", "message_not_found", "cannot_reply_to_message") {
		if at := d.Data.at(*thread); at >= 0 {
			d.Data.Open = slices.Delete(slices.Clone(d.Data.Open), at, at+1)
		}
		*thread = ""
		return d.postNew(ctx, e, events, thread)
	}
	return ts, err
}

// conclude brings the first messages of the threads up to date, and notes what the events mean for them. in
// is the thread in which ts, the message that was posted, is a reply. Both may be "".
func (d *deliveryOf) conclude(ctx context.Context, e outbox.Event, events []outbox.Event, in, ts string) error {
	next, changed, now := d.Data, false, d.now()
	next.Trying = &trying{Events: list.Map(events, func(e outbox.Event) string { return e.ID }), At: now, Noted: true}
	for _, ts := range next.concerned(events) {
		if err := d.update(ctx, next.note(next.at(ts), events, now), e); err != nil {
			return err
		}
		changed = true
	}
	if in == "" && ts != "" && next.begin(ts, slackText(e), events, now) {
		changed = true
	}
	if !changed {
		return nil // the next message replaces what is being tried
	}
	if err := d.write(ctx, next, now); err != nil {
		return &outbox.DownError{Err: err}
	}
	return nil
}

// update shows the latest state in the first message of a thread. A message that Slack does not let
// change stays as it is.
func (d *deliveryOf) update(ctx context.Context, t thread, e outbox.Event) error {
	text := slackText(e) + "\n_It began with:_ " + t.Began
	if t.All > 1 {
		text = fmt.Sprintf("%s\n_%d of %d tasks are still concerned. The latest message: %s_", t.Began, len(t.Incidents), t.All, escape.Replace(headline(e)))
	}
	_, err := d.call(ctx, d.token, "chat.update", map[string]any{"channel": d.Channel, "ts": t.TS, "text": text})
	if errors.As(err, new(*outbox.DownError)) {
		return err
	}
	return nil
}

// postMessage posts a message, and returns Slack's name of it. A reply that asks for an approval is also
// shown in the channel.
func (b *bot) postMessage(ctx context.Context, token string, e outbox.Event, thread string) (string, error) {
	body := map[string]any{"channel": b.Channel, "text": slackText(e), "unfurl_links": false,
		"metadata": map[string]any{"event_type": "terrapulse", "event_payload": map[string]string{"id": e.ID}}}
	if thread != "" {
		body["thread_ts"], body["reply_broadcast"] = thread, e.Plan != "" && e.Kind == outbox.RunWaiting
	}
	said, err := b.call(ctx, token, "chat.postMessage", body)
	if err == nil && said.TS == "" {
		err = &outbox.DownError{Err: errors.New("the answer of Slack does not name the message")}
	}
	return said.TS, err
}

// find looks for the message about an event that may have been posted. Without the right to read the
// channel it is not found: then it is posted again.
func (b *bot) find(ctx context.Context, token, id, thread string, since time.Time) (string, error) {
	method, query := "conversations.history", url.Values{"channel": {b.Channel}, "include_all_metadata": {"true"}, "limit": {"200"},
		"oldest": {strconv.FormatInt(since.Add(-lookBack).Unix(), 10)}}
	if thread != "" {
		method = "conversations.replies"
		query.Set("ts", thread)
	}
	for range 10 { // pages
		said, err := b.call(ctx, token, method+"?"+query.Encode(), nil)
		if errors.As(err, new(*outbox.DownError)) && !refusedWith(err, "missing_scope", "not_in_channel") {
			return "", err
		}
		for _, m := range said.Messages {
			if m.Metadata.Payload.ID == id {
				return m.TS, nil
			}
		}
		if err != nil || said.Next.Cursor == "" {
			break
		}
		query.Set("cursor", said.Next.Cursor)
	}
	return "", nil
}

// answer is one of Slack's API.
type answer struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	TS       string `json:"ts"`
	Messages []struct {
		TS       string `json:"ts"`
		Metadata struct {
			Payload struct {
				ID string `json:"id"`
			} `json:"event_payload"`
		} `json:"metadata"`
	} `json:"messages"`
	Next struct {
		Cursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// slackError is an error code of Slack.
type slackError struct{ code, help string }

func (e *slackError) Error() string { return "Slack refused: " + e.code + e.help }

// refusedWith reports whether Slack refused with one of the codes.
func refusedWith(err error, codes ...string) bool {
	refused := new(slackError)
	return errors.As(err, &refused) && slices.Contains(codes, refused.code)
}

// call calls a method of Slack's API: with a body, or with what is in its query.
func (b *bot) call(ctx context.Context, token, method string, body any) (said answer, err error) {
	verb, text := http.MethodGet, []byte(nil)
	if body != nil {
		verb = http.MethodPost
		if text, err = json.Marshal(body); err != nil {
			return said, fmt.Errorf("encode the message: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, verb, b.API+method, bytes.NewReader(text))
	if err != nil {
		return said, &outbox.DownError{Err: person(errors.New("no request can be made of api_url"))}
	}
	if strings.ContainsAny(token, "\r\n\x00") {
		return said, &outbox.DownError{Err: person(errors.New("the token has more than one line, after its template was evaluated"))}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "terrapulse")
	resp, err := exchange(ctx, req)
	if err != nil {
		return said, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if resp.StatusCode/100 != 2 {
		return said, refusal(resp, content[:min(len(content), 4<<10)])
	}
	if err != nil || json.Unmarshal(content, &said) != nil {
		return answer{}, &outbox.DownError{Err: errors.New("the answer of Slack cannot be read")}
	}
	if said.OK {
		return said, nil
	}
	return said, refused(said.Error)
}

// refused explains an error code of Slack.
func refused(code string) error {
	down := func(help string) error {
		return &outbox.DownError{Err: person(&slackError{code, help})}
	}
	switch code {
	case "", "ratelimited", "rate_limited", "message_limit_exceeded", "fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		return &outbox.DownError{Err: &slackError{code: code}}
	case "not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired", "no_permission", "org_login_required", "ekm_access_denied", "team_access_not_granted", "access_denied", "not_allowed_token_type", "accesslimited":
		return down("; install the app again, and set its new token")
	case "missing_scope":
		return down("; give the bot the scopes chat:write and channels:history or groups:history, and install the app again")
	case "channel_not_found", "is_archived", "invalid_channel":
		return down("; set channel to one that is there, and invite the bot to it")
	case "not_in_channel":
		return down("; invite the bot to the channel")
	}
	if strings.HasPrefix(code, "restricted_action") {
		return down("; an administrator of Slack must let the bot post to the channel")
	}
	return person(&slackError{code: code}) // it does not take this message
}
