package state

import (
	"encoding/json"
	"strings"
	"time"
)

// WhatIf says of a plan run that its data is supposed, and what would happen to its task.
type WhatIf struct {
	ID       string   `json:"id,omitempty"`      // of the Question that the run is a part of
	Supposed string   `json:"supposed"`          // in words, such as "without node n7"
	Verdict  *Verdict `json:"verdict,omitempty"` // nil if there was no plan to judge
}

// String says what is supposed, and what would happen.
func (w WhatIf) String() string {
	text := "what if, " + w.Supposed
	if w.Verdict != nil {
		text += ": " + w.Verdict.Text
	}
	return text
}

// Verdict says what would happen to a task.
type Verdict struct {
	Outcome WouldBe `json:"outcome"`
	Text    string  `json:"text"`             // in one sentence, such as "would be held: 12 of 20 service instances are gone, and …"
	Causes  []Cause `json:"causes,omitempty"` // of an approval
	// Keeps is why the task would keep those waiting that come after it, although nothing of it would be applied.
	Keeps string `json:"keeps,omitempty"`
}

// WithoutRun returns the task without its run, for a what-if: it does not wait for the end of that.
func (t Task) WithoutRun() Task {
	t.Run, t.RemoteRun = nil, nil
	return t
}

// WouldBe is what would happen to a task.
type WouldBe string

// What would happen to a task.
const (
	WouldNotChange  WouldBe = "unchanged" // there would be nothing to apply
	WouldApply      WouldBe = "applied"
	WouldApprove    WouldBe = "approval"    // it would wait for an approval, because each such plan does
	WouldHold       WouldBe = "held"        // a guard or a check would hold it
	WouldWindow     WouldBe = "window"      // it would wait for its window
	WouldLater      WouldBe = "later"       // it would be applied with a later run, which nothing triggers now
	WouldStop       WouldBe = "stopped"     // a person has stopped the task, or all tasks
	WouldNotConcern WouldBe = "unconcerned" // it reads nothing that would differ
	WouldFail       WouldBe = "failed"
)

// WouldBes are all that may happen, the most urgent first, with the words for people.
var WouldBes = []struct {
	Outcome WouldBe
	Words   string // of how many tasks, such as "3 would be applied"
}{
	{WouldFail, "would fail"},
	{WouldHold, "would be held"},
	{WouldApprove, "would wait for an approval"},
	{WouldStop, "would not run"},
	{WouldWindow, "would wait for a window"},
	{WouldApply, "would be applied"},
	{WouldLater, "would change with a later run"},
	{WouldNotChange, "would not change"},
}

// Question is a what-if about several tasks: which plan runs answer it.
type Question struct {
	ID           string       `json:"id"`
	Supposed     string       `json:"supposed"`
	By           string       `json:"by"`
	Created      time.Time    `json:"created"`
	Tasks        int          `json:"tasks"` // that were examined
	NotConcerned int          `json:"not_concerned"`
	Unmatched    []string     `json:"unmatched,omitempty"`  // what concerns nothing, in words
	Unreadable   []UnreadTask `json:"unreadable,omitempty"` // tasks whose data cannot be read now
	Runs         []Answering  `json:"runs,omitempty"`
	// Order has the places of the tasks, and of those that come before them.
	Order []Place `json:"order,omitempty"`
	// Request is what was asked, as POST /v1/what-if takes it, so that people can ask again. A long one is not kept.
	Request json.RawMessage `json:"request,omitempty"`
}

// maxRequest is the length of a request that a Question keeps.
const maxRequest = 4096

// Asked returns the question with what was asked: what is supposed, and the names of the tasks.
func (q Question) Asked(supposed json.RawMessage, tasks []string) Question {
	request := map[string]any{}
	if json.Unmarshal(supposed, &request) != nil {
		return q
	}
	if len(tasks) > 0 {
		request["tasks"] = tasks
	}
	if raw, err := json.Marshal(request); err == nil && len(raw) <= maxRequest {
		q.Request = raw
	}
	return q
}

// UnreadTask is a task of which it is not known what would happen.
type UnreadTask struct {
	Task  string `json:"task"`
	Error string `json:"error"`
}

// Answering is a plan run that answers a part of a Question.
type Answering struct {
	Task string `json:"task"`
	Run  string `json:"run"`
}

// Place is the place of tasks in the order when a what-if was asked.
type Place struct {
	Tasks []string `json:"tasks"`
	After []string `json:"after,omitempty"` // names and patterns of the tasks that each comes after
	// Keeps is why each keeps those waiting that come after it, if the what-if does not concern it.
	Keeps string `json:"keeps,omitempty"`
}

// QuestionPrefix is the collection of the questions. Their ids sort by time.
const QuestionPrefix = "what-if/"

// QuestionKey returns the key of a question.
func QuestionKey(id string) string { return QuestionPrefix + element(id) }

// KeptUntil is when the record expires: with its runs.
func (q Question) KeptUntil() time.Time { return q.Created.Add(keptApart) }

// ConcernsNothing reports whether the question supposes nothing that any task reads.
func (q Question) ConcernsNothing() bool {
	return len(q.Unmatched) > 0 && len(q.Runs) == 0 && len(q.Unreadable) == 0
}

// Said are the texts of causes in one.
func Said(causes []Cause) string {
	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.Text
	}
	return strings.Join(texts, "; ")
}
