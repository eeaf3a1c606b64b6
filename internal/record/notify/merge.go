package notify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Message is what people read about one event, or about several that are one thing that happened.
type Message struct {
	outbox.Event
	Of []int // the indexes of the events
}

// Messages returns the messages about events, no two of which are of the same task.
func Messages(events []outbox.Event) (all []Message) {
	for _, group := range groups(events) {
		all = append(all, Message{merged(events, group), group})
	}
	return all
}

// groups returns the indexes of the events that are one message: those of one kind. A plan that
// waits for a person is a message of its own, because it has a command of its own.
func groups(events []outbox.Event) (all [][]int) {
	at := map[outbox.Kind]int{}
	for i, e := range events {
		n, found := at[e.Kind]
		if found && e.WaitFor != state.WaitApproval && e.Task != "" {
			all[n] = append(all[n], i)
			continue
		}
		if e.WaitFor != state.WaitApproval && e.Task != "" {
			at[e.Kind] = len(all)
		}
		all = append(all, []int{i})
	}
	return all
}

// merged is one event for those of a group, about all of their tasks.
func merged(events []outbox.Event, group []int) outbox.Event {
	first := events[group[0]]
	if len(group) == 1 {
		return first
	}
	m := outbox.Event{ID: first.ID, Kind: first.Kind, Seq: first.Seq, At: first.At, By: first.By, Stack: first.Stack, URL: first.URL}
	if pages, _, linked := strings.Cut(first.URL, outbox.PagesPath); linked {
		m.URL = pages + outbox.PagesPath + "tasks"
	}
	var tasks, details, failures, causes []string
	for _, i := range group {
		e := events[i]
		tasks, details, failures, causes = append(tasks, e.Task), append(details, e.Detail), append(failures, e.Error), append(causes, e.Cause)
		if e.By != m.By {
			m.By = ""
		}
		if m.Since.IsZero() || !e.Since.IsZero() && e.Since.Before(m.Since) {
			m.Since = e.Since
		}
		if c := e.Changes; c != nil {
			if m.Changes == nil {
				m.Changes = new(state.Changes)
			}
			m.Changes.Add, m.Changes.Change, m.Changes.Destroy = m.Changes.Add+c.Add, m.Changes.Change+c.Change, m.Changes.Destroy+c.Destroy
		}
	}
	m.Error, m.Cause = inShort(failures, tasks), inShort(causes, tasks)
	if len(slices.Compact(details)) == 1 {
		m.Detail = details[0]
	}
	return m.About(tasks)
}

// inShort returns the first of the texts of several tasks, with the number of the others that say
// something else.
func inShort(texts, tasks []string) string {
	first, others := texts[0], 0
	for i, text := range texts {
		if state.Alike(text, tasks[i]) != state.Alike(first, tasks[0]) {
			others++
		}
	}
	if others > 0 {
		first = fmt.Sprintf("%s (%d of the tasks report something else)", first, others)
	}
	return first
}
