package outbox

import "net/url"

// PagesPath is the path of the pages, below the address of the HTTP API.
const PagesPath = "/ui/"

// Pages says where people find the pages.
type Pages struct {
	URL   string // that people reach the API at, as api.url says; "" if it is not configured
	Stack string // a deployment in AWS, whose pages `terrapulse ui` shows
	// Links returns the pages of the AWS console about a container; may be nil.
	Links func(runner string) *Links
}

// Of returns an event with the address of the page about it, with the name of the stack,
// and with the pages of the AWS console about its run.
func (p Pages) Of(e Event) Event {
	e.Stack = p.Stack
	if p.URL != "" {
		e.URL = p.URL + PagesPath + e.page()
	}
	if p.Links != nil && e.Runner != "" {
		e.Links = p.Links(e.Runner)
	}
	return e
}

// page is the path of the page about the event.
func (e Event) page() string {
	task := "tasks/" + url.PathEscape(e.Task)
	switch e.Kind {
	case RunWaiting, DriftFound, DriftEnded, TaskRemoved, TaskMoved:
		return task // which shows the plan, or what differs
	case TaskForgotten:
		return "tasks"
	}
	switch {
	case e.Task == "":
		return "health"
	case e.Run != "":
		return task + "/runs/" + url.PathEscape(e.Run)
	}
	return task
}
