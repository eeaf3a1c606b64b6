package selection

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// labelForm is the form of the parameter label. The key has the form that task files require.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}=[A-Za-z0-9._,-]*$`)

func (p *parser) label(text string) string {
	if !labelForm.MatchString(text) {
		p.wrong("label", text, "use KEY=VALUE, such as site=muc")
	}
	return text
}

// Label returns the value of a task's label; "" if it does not have the label.
func Label(t *apispec.TaskOverview, key string) string { return apispec.Deref(t.Labels)[key] }

// Labelled returns a function that reports whether labels fit a selection, as in Selection.Labels.
func Labelled(selected []string) func(labels map[string]string) bool {
	type wanted struct {
		key    string
		values []string
	}
	var all []wanted
	for _, label := range selected {
		key, values, _ := strings.Cut(label, "=")
		all = append(all, wanted{key, strings.Split(values, ",")})
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(all, func(w wanted) bool { return !slices.Contains(w.values, labels[w.key]) })
	}
}

// labelled returns a function that reports whether a task has all labels of the selection.
func (s Selection) labelled() func(*apispec.TaskOverview) bool {
	fits := Labelled(s.Labels)
	return func(t *apispec.TaskOverview) bool { return fits(apispec.Deref(t.Labels)) }
}

// LabelsOf returns the labels of a task as KEY=VALUE, sorted.
func LabelsOf(t *apispec.TaskOverview) []string {
	labels := apispec.Deref(t.Labels)
	all := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return all
}

// labelsText is the labels for a search.
func labelsText(t *apispec.TaskOverview) string {
	if t.Labels == nil {
		return ""
	}
	return strings.Join(LabelsOf(t), "\n")
}

// maxKeys is how many keys of labels an overview names.
const maxKeys = 50

// labelKeys returns the keys of the labels of all tasks; nil if none has a label.
func labelKeys(all []apispec.TaskOverview) *[]string {
	keys := map[string]bool{}
	for i := range all {
		for key := range apispec.Deref(all[i].Labels) {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return nil
	}
	sorted := slices.Sorted(maps.Keys(keys))
	sorted = sorted[:min(len(sorted), maxKeys)]
	return &sorted
}

// compareGroups orders values of a label: tasks without the label are last.
func compareGroups(a, b string) int {
	switch {
	case a == "" && b != "":
		return 1
	case a != "" && b == "":
		return -1
	}
	return cmp.Compare(a, b)
}

// groups counts tasks by the value of the label by which the selection groups them; nil if it does not.
func (s Selection) groups(chosen []*apispec.TaskOverview) []apispec.TaskGroup {
	if s.Group == "" {
		return nil
	}
	phases := map[string]map[string]int{}
	for _, t := range chosen {
		value := Label(t, s.Group)
		if phases[value] == nil {
			phases[value] = map[string]int{}
		}
		phases[value][string(t.Phase)]++
	}
	groups := []apispec.TaskGroup{}
	for _, value := range slices.SortedFunc(maps.Keys(phases), compareGroups) {
		g := apispec.TaskGroup{Value: value, Phases: phases[value]}
		for _, n := range g.Phases {
			g.Tasks += n
		}
		groups = append(groups, g)
	}
	return groups
}
