// Package selection says which tasks a list has, in which order, and which part of the
// list is read at a time. The HTTP API, its clients, the pages and the command line use
// the same Selection, so that a parameter means the same everywhere.
package selection

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// Selection is which tasks a list has. Its zero value selects all tasks, in the order in
// which they come; any other one orders them.
type Selection struct {
	Tasks   []string        // only those with these names
	Phases  []apispec.Phase // only those in these phases; or Attention, or Approval
	Reason  string          // only those whose reason has this code
	Name    string          // only those whose name has this part or, with * or ?, matches it
	Enabled *bool           // only those that are enabled, or that are not
	Labels  []string        // only those with each of these labels, as KEY=VALUE or KEY=VALUE,VALUE; KEY= selects those without it
	Group   string          // the key of a label: those with the same value are together
	Search  string          // only those of which a text has each of these words
	Sort    string          // one of Sorts, with - before it for the opposite order; by default name
	Limit   *int            // at most so many; nil for all
	After   string          // only those behind the task with this name
	Before  string          // the part that ends before the task with this name
	Urgent  int             // how many tasks that need a person are listed besides
	Brief   bool            // each task only with what lists show
}

// In place of a phase, Attention selects the tasks that need a person, and Approval those whose plan waits.
const (
	Attention apispec.Phase = "attention"
	Approval  apispec.Phase = "approval"
)

// MaxLimit is how many tasks a list has at most if it has a limit: they fit into the 6 MB
// that AWS lets a function answer.
const MaxLimit = 1000

func (s Selection) isZero() bool { return len(s.Query()) == 0 }

// Every reports whether it selects all tasks.
func (s Selection) Every() bool {
	s.Sort, s.Urgent, s.Brief = "", 0, false
	return s.isZero()
}

// None selects no task: the answer has only what concerns all tasks, such as the counts.
func None() Selection { return Selection{Limit: new(0)} }

// First selects the first n tasks of a selection.
func (s Selection) First(n int) Selection {
	s.Limit = &n
	return s
}

// keys are the parameters of a list of tasks. In a query, urgent is called attention.
var keys = []string{"task", "phase", "reason", "name", "enabled", "label", "group", "search", "sort", "limit", "after", "before", "attention", "brief"}

// Given reports whether a query has a parameter of a list of tasks.
func Given(q url.Values) bool {
	return slices.ContainsFunc(keys, q.Has)
}

// Parse reads the parameters of a list of tasks. The error names the parameter.
func Parse(q url.Values) (Selection, error) {
	p := parser{query: q}
	s := Selection{Tasks: q["task"], Reason: p.text("reason"), Name: p.text("name"), Enabled: p.flag("enabled"), Search: p.text("search"), Sort: p.sort(),
		Limit: p.number("limit"), After: p.text("after"), Before: p.text("before")}
	for _, phase := range q["phase"] {
		s.Phases = append(s.Phases, p.phase(phase))
	}
	for _, label := range q["label"] {
		s.Labels = append(s.Labels, p.label(label))
	}
	if s.Group = p.text("group"); s.Group != "" && !labelForm.MatchString(s.Group+"=") {
		p.wrong("group", s.Group, "use the key of a label, such as site")
	}
	if n := p.number("attention"); n != nil {
		s.Urgent = *n
	}
	if brief := p.flag("brief"); brief != nil {
		s.Brief = *brief
	}
	if s.After != "" && s.Before != "" {
		p.wrong("before", s.Before, "use it without after")
	}
	return s, p.err
}

// Query returns the parameters that Parse reads.
func (s Selection) Query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"reason": s.Reason, "name": s.Name, "group": s.Group, "search": s.Search, "sort": s.Sort, "after": s.After, "before": s.Before} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if len(s.Tasks) > 0 {
		q["task"] = s.Tasks
	}
	if len(s.Labels) > 0 {
		q["label"] = s.Labels
	}
	if len(s.Phases) > 0 {
		q["phase"] = list.Map(s.Phases, func(p apispec.Phase) string { return string(p) })
	}
	if s.Enabled != nil {
		q.Set("enabled", strconv.FormatBool(*s.Enabled))
	}
	if s.Limit != nil {
		q.Set("limit", strconv.Itoa(*s.Limit))
	}
	if s.Brief {
		q.Set("brief", "true")
	}
	if s.Urgent > 0 {
		q.Set("attention", strconv.Itoa(s.Urgent))
	}
	return q
}

// Phases are the values of the parameter phase.
func Phases() []string {
	var all []string
	for _, row := range lifecycle.Phases {
		all = append(all, string(row.Phase))
	}
	return append(all, string(Attention), string(Approval))
}

// Sorts are the orders of a list.
var Sorts = []string{"name", "phase", "last", "due"}

// Error is a parameter that has a wrong value.
type Error struct{ Parameter, Value, Hint string }

func (e *Error) Error() string {
	return fmt.Sprintf("parameter %s is %q: %s", e.Parameter, e.Value, e.Hint)
}

// parser reads parameters, and keeps the first error.
type parser struct {
	query url.Values
	err   error
}

func (p *parser) wrong(key, value, hint string) {
	if p.err == nil {
		p.err = &Error{key, value, hint}
	}
}

// text returns the value of a parameter that may be given once.
func (p *parser) text(key string) string {
	given := p.query[key]
	if len(given) > 1 {
		p.wrong(key, strings.Join(given, ", "), "give it only once")
	}
	return p.query.Get(key)
}

func (p *parser) flag(key string) *bool {
	text := p.text(key)
	switch {
	case !p.query.Has(key):
		return nil
	case text != "true" && text != "false":
		p.wrong(key, text, "use true or false")
	}
	return new(text == "true")
}

func (p *parser) number(key string) *int {
	text := p.text(key)
	if !p.query.Has(key) {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > MaxLimit {
		p.wrong(key, text, fmt.Sprintf("use a number from 0 to %d", MaxLimit))
	}
	return &n
}

func (p *parser) sort() string {
	text := p.text("sort")
	if p.query.Has("sort") && !slices.Contains(Sorts, strings.TrimPrefix(text, "-")) {
		p.wrong("sort", text, "use "+strings.Join(Sorts, ", ")+", or one of them with - before it")
	}
	return text
}

func (p *parser) phase(text string) apispec.Phase {
	if !slices.Contains(Phases(), text) {
		p.wrong("phase", text, "use "+strings.Join(Phases(), ", "))
	}
	return apispec.Phase(text)
}
