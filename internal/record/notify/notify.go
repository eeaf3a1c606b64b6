// Package notify tells people and other systems about events. Each kind of notify
// block is one file: its keys, their checks, and how it delivers an event.
//
// A block becomes a sink of package outbox, which repeats what fails. An endpoint
// that does not answer delays no other sink.
package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// keep is how long looked-up values are used: a burst of events must not look them
// up each time, and a secret that was replaced is used soon.
const keep = time.Minute

// Notify is a notify block. A new kind is a file and a field here.
type Notify struct {
	block.Origin `unknown:"unsupported notify type"`
	Webhook      webhookKeys `key:"webhook" doc:"an HTTP request in the format of Standard Webhooks"`
	Slack        slackKeys   `key:"slack" doc:"messages in Slack, through an incoming webhook or by a bot"`
	Command      commandKeys `key:"command" doc:"a program on this machine; not in AWS"`
}

// Schema says that a block needs a type.
func (*Notify) Schema(o map[string]any) { o["minProperties"] = 1 }

// common are the keys that every kind has.
type common struct {
	block.Origin
	Name     block.String   `key:"name" unset:"the type of the block" example:"on-call" doc:"unique name, for logs and 'terrapulse notify test'"`
	Events   block.Strings  `key:"events" unset:"every event" doc:"the kinds of events; 'run_*' is every kind that begins with 'run_'"`
	Tasks    block.Strings  `key:"tasks" unset:"every event" doc:"only events about these tasks; '*' at the end stands for any text"`
	Messages block.Bool     `key:"messages" unset:"'true' for Slack, otherwise 'false'" doc:"'true': only messages for people, without steps of runs and repetitions"`
	Timeout  block.Duration `key:"timeout" default:"10s" form:"delay" doc:"time limit of a delivery"`
}

func (c *common) shared() *common { return c }

// keys are the keys of one kind.
type keys interface {
	shared() *common
	// about describes the kind.
	about() about
	// target checks the keys that are the kind's own.
	target(r *block.Report) Target
}

// about is what is true of every sink of a kind.
type about struct {
	ForPeople bool     // people read what it delivers
	NotInAWS  string   // why it does not work in AWS; "" if it does
	Templates []string // the keys whose values may be templates; '*' at the end is any ending
	Secrets   []secret // the keys whose values are secrets
}

// secret is a secret of a notify block.
type secret struct {
	Key  string // in lower case
	Form string // a regular expression for such secrets; "" if they have no common form
}

// blocks are the blocks of all kinds, by the name of the kind.
func (n *Notify) blocks() iter.Seq2[string, keys] {
	return func(yield func(string, keys) bool) {
		fields := reflect.ValueOf(n).Elem()
		for i := range fields.NumField() {
			kind := fields.Type().Field(i).Tag.Get("key")
			if kind != "" && !yield(kind, fields.Field(i).Addr().Interface().(keys)) {
				return
			}
		}
	}
}

// kinds describes every kind, by its name.
var kinds = func() map[string]about {
	all := map[string]about{}
	for kind, k := range new(Notify).blocks() {
		all[kind] = k.about()
	}
	return all
}()

// keyOf splits the path of a key, such as notify[0].slack.url.
func keyOf(path string) (of about, key string) {
	in, rest, _ := strings.Cut(strings.ToLower(path), ".")
	kind, key, _ := strings.Cut(rest, ".")
	if !strings.HasPrefix(in, "notify[") {
		return about{}, ""
	}
	return kinds[kind], key
}

// MayBeTemplate reports whether the value of a key, by its path, may be a template.
func MayBeTemplate(path string) bool {
	of, key := keyOf(path)
	return slices.ContainsFunc(of.Templates, func(pattern string) bool { return matches(pattern, key) })
}

// IsSecret reports whether the value of a key, by its path, is a secret.
func IsSecret(path string) bool {
	of, key := keyOf(path)
	return slices.ContainsFunc(of.Secrets, func(s secret) bool { return s.Key == key })
}

// SecretForms are regular expressions for the secrets of all kinds.
func SecretForms() (all []*regexp.Regexp) {
	for _, of := range kinds {
		for _, s := range of.Secrets {
			if s.Form != "" {
				all = append(all, regexp.MustCompile(s.Form))
			}
		}
	}
	return all
}

// Target is what the sinks of one kind need beside what all have.
type Target interface {
	// Texts are the values that may be templates, by their keys.
	Texts() map[string]string
	// send delivers an event, with the evaluated texts.
	send(ctx context.Context, e outbox.Event, texts map[string]string) error
}

// Spec is a notify block of the configuration.
type Spec struct {
	Name    string
	Kind    string
	At      block.Origin
	Events  []string
	Tasks   []string
	Timeout time.Duration
	// Messages leaves out what is no news to people.
	Messages bool
	Target
}

// forPeople reports whether people read what the sink delivers.
func (s *Spec) forPeople() bool { return kinds[s.Kind].ForPeople }

// NotInAWS says why the sink does not work in AWS; "" if it does.
func (s *Spec) NotInAWS() string { return kinds[s.Kind].NotInAWS }

// Text is a value of a block that may be a template.
type Text struct {
	Key  string // its full key, such as notify[0].webhook.secret
	Text string
}

// Values returns the values of the block that may be templates, sorted by key.
func (s Spec) Values() []Text {
	texts := s.Texts()
	return list.Map(slices.Sorted(maps.Keys(texts)), func(key string) Text { return Text{block.Joined(s.At.Path, key), texts[key]} })
}

// reserved are the names of the sinks that need no block.
var reserved = []string{"log", "eventbridge", "eventbridge-messages"}

// Specs checks a block, and reports everything that is wrong with it.
func (n *Notify) Specs(r *block.Report) []Spec {
	var specs []Spec
	var types []string
	for kind, k := range n.blocks() {
		types = append(types, kind)
		c := k.shared()
		if !c.Set {
			continue
		}
		s := Spec{Name: c.Name.V, Kind: kind, At: c.Origin, Events: c.Events.V, Tasks: c.Tasks.V, Timeout: c.Timeout.V, Messages: c.Messages.V}
		if !c.Messages.Set {
			s.Messages = s.forPeople()
		}
		switch {
		case !c.Name.Set:
			s.Name = kind
		case !block.IsName(s.Name) || slices.Contains(reserved, s.Name):
			r.Fail(c.Name.Origin, "not a name for a notify block: "+block.Quoted(s.Name), "letters, digits, '_', '-' and '.'; not "+strings.Join(reserved, " or "))
		}
		if s.Timeout <= 0 {
			r.Fail(c.Timeout.Origin, "the timeout must be longer than 0s", `such as "10s"`)
		}
		for i, pattern := range s.Events {
			if !slices.ContainsFunc(outbox.Kinds(), func(kind outbox.Kind) bool { return matches(pattern, string(kind)) }) {
				r.Fail(c.Events.Element(i), "no kind of event is "+block.Quoted(pattern), eventHint(pattern))
			}
		}
		s.Target = k.target(r)
		specs = append(specs, s)
	}
	if len(specs) == 0 && n.Set {
		r.Missing(n.Origin, "the notify block has no type", fmt.Sprintf("write one of %s after notify, as in notify %q { ... }", strings.Join(types, ", "), types[0]))
	}
	return specs
}

// eventHint lists the kinds that resemble an unknown one.
func eventHint(pattern string) string {
	group, _, _ := strings.Cut(strings.ReplaceAll(pattern, ".", "_"), "_")
	var names []string
	for _, kind := range outbox.Kinds() {
		if strings.HasPrefix(string(kind), group+"_") {
			names = append(names, string(kind))
		}
	}
	if len(names) == 0 {
		names = []string{"run_failed", "run_*"}
	}
	return "such as " + strings.Join(names, ", ") + "; " + docs.Page("reference/events.md") + " lists all"
}

// Unique reports blocks with the same name.
func Unique(r *block.Report, specs []Spec) {
	first := map[string]Spec{}
	for _, s := range specs {
		if other, ok := first[s.Name]; ok {
			r.Fail(s.At, fmt.Sprintf("another notify block (%s) has the name %s", other.At.Pos, block.Quoted(s.Name)), "set name in one of them")
			continue
		}
		first[s.Name] = s
	}
}

// matches reports whether a text is that of the pattern, which may end in *.
func matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Set has the sinks of the configuration in force.
type Set struct {
	Evaluate Evaluate
	// Store keeps the threads of chats; nil keeps none.
	Store state.Store
	// Now is the time of a bot's messages; time.Now if nil.
	Now func() time.Time
	// InAWS leaves out the blocks that only work where Terrapulse runs all the time.
	InAWS bool

	mu    sync.Mutex
	sinks []*Sink
}

// Sinks returns the sinks of the blocks. A block that is unchanged keeps its sink,
// and with it the rest after a failure.
func (s *Set) Sinks(specs []Spec) []outbox.Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []*Sink
	var all []outbox.Sink
	for _, spec := range specs {
		if s.InAWS && spec.NotInAWS() != "" {
			continue
		}
		i := slices.IndexFunc(s.sinks, func(sink *Sink) bool {
			old := sink.Spec
			old.At = spec.At // it may have moved in its file
			return reflect.DeepEqual(old, spec)
		})
		sink := New(spec, s.Evaluate)
		sink.store = s.Store
		if s.Now != nil {
			sink.now = s.Now
		}
		if i >= 0 {
			sink = s.sinks[i]
		}
		next, all = append(next, sink), append(all, sink)
	}
	s.sinks = next
	return all
}

// encode is an event as a webhook and a command get it: as Standard Webhooks say.
func encode(e outbox.Event) ([]byte, error) {
	return json.Marshal(struct {
		Type      outbox.Kind  `json:"type"`
		Timestamp time.Time    `json:"timestamp"`
		Data      outbox.Event `json:"data"`
	}{e.Kind, e.At, e})
}

// person marks an error that stays until somebody changes something.
func person(err error) error { return fault.As(fault.Person, err) }
