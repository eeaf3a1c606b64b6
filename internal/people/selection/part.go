package selection

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// Part is the part of a list that a selection has.
type Part struct {
	Tasks          []apispec.TaskOverview
	Matches        int                 // tasks that are selected
	Skipped        int                 // those of them before Tasks
	Groups         []apispec.TaskGroup // all that are selected, by the value of a label; nil unless they are grouped
	Next, Previous string              // for After and Before; "" if nothing follows or comes before
}

// Of returns the part of all tasks that the selection has. Only tasks for which in
// returns true are in the list; it may be nil.
func (s Selection) Of(all []apispec.TaskOverview, in func(name string) bool) Part {
	fits := s.matcher()
	var chosen []*apispec.TaskOverview
	for i := range all {
		if t := &all[i]; fits(t) && (in == nil || in(t.Name)) {
			chosen = append(chosen, t)
		}
	}
	compare := s.order()
	if !s.isZero() {
		s.arrange(chosen)
	}
	p := Part{Matches: len(chosen), Groups: s.groups(chosen)}
	first, size := 0, len(chosen)
	if s.Limit != nil {
		size = *s.Limit
	}
	switch {
	case s.After != "":
		first = position(all, chosen, s.After, s.ordersByName(), compare, true)
	case s.Before != "":
		first = max(0, position(all, chosen, s.Before, s.ordersByName(), compare, false)-size)
	}
	end := min(len(chosen), first+size)
	p.Skipped = first
	p.Tasks = make([]apispec.TaskOverview, 0, end-first)
	for _, t := range chosen[first:end] {
		p.Tasks = append(p.Tasks, *t)
	}
	if end < len(chosen) && end > first {
		p.Next = chosen[end-1].Name
	}
	if first > 0 && end > first {
		p.Previous = chosen[first].Name
	}
	return p
}

// position is how many of the chosen tasks come before the named one, also counting that
// one itself if through is set. That task need not be chosen. By name, it may also be gone;
// in another order the list then begins again.
func position(all []apispec.TaskOverview, chosen []*apispec.TaskOverview, name string, byName bool, compare func(a, b *apispec.TaskOverview) int, through bool) int {
	at := &apispec.TaskOverview{Name: name}
	if i := slices.IndexFunc(all, func(t apispec.TaskOverview) bool { return t.Name == name }); i >= 0 {
		at = &all[i]
	} else if !byName {
		return 0
	}
	n, found := slices.BinarySearchFunc(chosen, at, compare)
	if found && through {
		n++
	}
	return n
}

// ordersByName reports whether the place of a task depends on its name alone.
func (s Selection) ordersByName() bool {
	return s.Group == "" && (s.Sort == "" || strings.TrimPrefix(s.Sort, "-") == "name")
}

// matcher returns a function that reports whether a task is selected.
func (s Selection) matcher() func(*apispec.TaskOverview) bool {
	named, labelled := s.named(), s.labelled()
	words := strings.Fields(strings.ToLower(s.Search))
	return func(t *apispec.TaskOverview) bool {
		return (len(s.Tasks) == 0 || slices.Contains(s.Tasks, t.Name)) &&
			(len(s.Phases) == 0 || slices.Contains(s.Phases, t.Phase) || slices.Contains(s.Phases, Attention) && Urgency(t) > 0 || slices.Contains(s.Phases, Approval) && Deciding(t)) &&
			(s.Reason == "" || s.Reason == string(t.Reason.Code)) &&
			(s.Enabled == nil || *s.Enabled == t.Enabled) && named(t.Name) && labelled(t) &&
			(len(words) == 0 || Has(words, t.Name, t.Reason.Text, apispec.Deref(t.Watches), What(t), apispec.Deref(t.Origin.File), labelsText(t)))
	}
}

// named returns a function that reports whether a name has the part, or matches it.
func (s Selection) named() func(string) bool {
	if !strings.ContainsAny(s.Name, "*?") {
		part := strings.ToLower(s.Name)
		return func(name string) bool { return strings.Contains(strings.ToLower(name), part) }
	}
	pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(s.Name))
	return regexp.MustCompile("(?is)^" + pattern + "$").MatchString
}

// Has reports whether texts have all words, which are in lower case.
func Has(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) })
}

// Apply leaves in an overview of all tasks those that are selected, and counts all.
func (s Selection) Apply(o *apispec.Overview) error {
	all := o.Tasks
	if !s.isZero() && o.Digest == nil {
		if err := Digest(o); err != nil {
			return err
		}
	}
	counts := apispec.TaskCounts{All: len(all), Phases: map[string]int{}}
	var urgent []*apispec.TaskOverview
	for i := range all {
		counts.Phases[string(all[i].Phase)]++
		if Urgency(&all[i]) > 0 {
			urgent = append(urgent, &all[i])
		}
	}
	counts.Attention = len(urgent)
	p := s.Of(all, nil)
	counts.Matches, counts.Skipped = p.Matches, p.Skipped
	if o.LabelKeys = nil; !s.isZero() {
		o.LabelKeys = labelKeys(all)
	}
	if p.Groups != nil {
		o.Groups = &p.Groups
	}
	o.Tasks, o.Counts = p.Tasks, &counts
	o.Next, o.Previous = optional(p.Next), optional(p.Previous)
	if o.Attention = nil; s.Urgent > 0 {
		slices.SortFunc(urgent, byUrgency)
		first := make([]apispec.TaskOverview, 0, min(len(urgent), s.Urgent))
		for _, t := range urgent[:cap(first)] {
			first = append(first, *t)
		}
		o.Attention = &first
	}
	if s.isZero() {
		o.Digest = nil // the ETag does
	}
	return nil
}

// Digest sets the digest of an overview of all tasks, which Apply keeps.
func Digest(o *apispec.Overview) error {
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for i := range o.Tasks {
		if err := encoder.Encode(&o.Tasks[i]); err != nil {
			return fmt.Errorf("encode the overview of task %s: %w", o.Tasks[i].Name, err)
		}
	}
	o.Digest = new(hex.EncodeToString(hash.Sum(nil)[:16]))
	return nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
