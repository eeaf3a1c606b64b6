package web

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
)

// planView is a plan, its resources by what happens to them, the most dangerous first.
type planView struct {
	apispec.WaitingPlan
	Groups []planGroup `json:"-"`
}

// Approvers says in words who must approve the plan, and how many have; "" if anybody may.
func (p planView) Approvers() string {
	who := approval.Approvers(max(1, apispec.Deref(p.Needs)), apispec.Deref(p.From))
	if given := len(apispec.Deref(p.Approvals)); given > 0 {
		return fmt.Sprintf("%s: %d of %d approvals are there.", who, given, *p.Needs)
	}
	return who
}

// ApprovedBy reports whether a person is one of those who have approved the plan.
func (p planView) ApprovedBy(name string) bool {
	return slices.ContainsFunc(apispec.Deref(p.Approvals), func(a apispec.Approval) bool { return identity.Person(a.By) == identity.Person(name) })
}

// few is the number of resources up to which each shows its attributes from the beginning.
const few = 3

// Few reports whether the plan has few resources.
func (p planView) Few() bool {
	n := 0
	for _, g := range p.Groups {
		n += g.Count
	}
	return n <= few
}

// planGroup are the resources of a plan to which the same happens.
type planGroup struct {
	Name      string // what happens to them, as an order
	Class     string // of the style sheet
	Resources []planResource
	Count     int      // of all, also of those that are not shown
	actions   []string // of the resources, as Terraform calls them
}

// Words are what will happen to so many resources.
func (g planGroup) Words() string {
	switch {
	case g.Class == "other" && g.Count == 1:
		return "other"
	case g.Class == "other":
		return "others"
	}
	return "to " + strings.ToLower(g.Name)
}

// More is how many resources are not shown.
func (g planGroup) More() int { return g.Count - len(g.Resources) }

// planResource is what happens to one resource.
type planResource struct {
	apispec.ResourceChange
	Why    string // Terraform's reason in words
	Module string // the beginning of the address, which is mostly the same
	Local  string // the address in the module
	Rows   []planRow
	Causes []planCause
	More   int // causes that are not shown
}

// planCause is an entry in Consul because of which a resource is changed.
type planCause struct {
	Action apispec.EntryAction // "" if it is not known
	Text   string
}

// shownCauses is how many causes of a resource the page shows.
const shownCauses = 3

// causesOf are the entries that a resource names, with what happened to them.
func causesOf(names []string, entries map[string]apispec.EntryChange) (shown []planCause, more int) {
	for _, name := range names[:min(len(names), shownCauses)] {
		e := entries[name]
		shown = append(shown, planCause{e.Action, cmp.Or(apispec.Deref(e.ID), name)})
	}
	return shown, len(names) - len(shown)
}

// planRow is an attribute that changes, with its values as people see them.
type planRow struct {
	Path, Before, After          string
	Replaces, Sensitive, Unknown bool
}

func planRowOf(a apispec.AttributeChange) planRow {
	row := planRow{Path: a.Path, Replaces: apispec.Deref(a.Replaces), Sensitive: apispec.Deref(a.Sensitive), Unknown: apispec.Deref(a.Unknown)}
	row.Before, row.After = shortened(value(a.Before), value(a.After))
	return row
}

const (
	longValue = 300 // characters up to which a value is shown whole
	shownSame = 60  // characters of what two values have in common that are shown around what differs
	maxValue  = 600 // characters of a value that are shown
)

// shortened leaves out of two long values what they have in common.
func shortened(before, after string) (string, string) {
	b, a := []rune(before), []rune(after)
	if max(len(b), len(a)) <= longValue {
		return before, after
	}
	same := 0
	for same < min(len(b), len(a)) && b[same] == a[same] {
		same++
	}
	begin := max(0, same-shownSame)
	b, a, same = b[begin:], a[begin:], same-begin
	tail := 0
	for tail < min(len(b), len(a))-same && b[len(b)-1-tail] == a[len(a)-1-tail] {
		tail++
	}
	end := max(0, tail-shownSame)
	short := func(v []rune) string {
		kept := v[:len(v)-end]
		text := string(kept[:min(len(kept), maxValue)])
		if begin > 0 {
			text = "…" + text
		}
		if end > 0 || len(kept) > maxValue {
			text += "…"
		}
		return text
	}
	return short(b), short(a)
}

// planResourceOf splits the address, and says why.
func planResourceOf(r apispec.ResourceChange) planResource {
	of := planResource{ResourceChange: r, Why: planReason(r), Local: r.Address}
	for _, a := range apispec.Deref(r.Attributes) {
		of.Rows = append(of.Rows, planRowOf(a))
	}
	for strings.HasPrefix(of.Local, "module.") {
		call, rest, ok := strings.Cut(strings.TrimPrefix(of.Local, "module."), ".")
		if !ok || strings.ContainsRune(call, '[') { // a key says which of them, and may have dots
			break
		}
		of.Module, of.Local = of.Module+"module."+call+".", rest
	}
	return of
}

// maxResources is how many resources of a group the page shows.
const maxResources = 200

// planGroups are in the order in which people should see them. The last one has
// everything else.
var planGroups = []planGroup{
	{Name: "Destroy", Class: "delete", actions: []string{"delete"}},
	{Name: "Replace", Class: "replace", actions: []string{"replace"}},
	{Name: "Change", Class: "update", actions: []string{"update"}},
	{Name: "Create", Class: "create", actions: []string{"create"}},
	{Name: "Others", Class: "other"},
}

func planOf(w apispec.WaitingPlan) *planView {
	v := &planView{WaitingPlan: w}
	if w.Plan == nil {
		return v
	}
	entries := map[string]apispec.EntryChange{}
	if w.Entries != nil {
		for _, e := range apispec.Deref(w.Entries.Entries) {
			entries[e.Name] = e
		}
	}
	groups := slices.Clone(planGroups)
	for _, r := range w.Plan.Resources {
		i := slices.IndexFunc(groups, func(g planGroup) bool { return g.actions == nil || slices.Contains(g.actions, r.Action) })
		g := &groups[i]
		if g.Count++; len(g.Resources) < maxResources {
			of := planResourceOf(r)
			of.Causes, of.More = causesOf(apispec.Deref(r.Causes), entries)
			g.Resources = append(g.Resources, of)
		}
	}
	v.Groups = slices.DeleteFunc(groups, func(g planGroup) bool { return g.Count == 0 })
	return v
}

// planReasons are Terraform's codes of why something happens to a resource. Codes that
// are not listed say no more than the plan does.
var planReasons = map[string]string{
	"replace_because_tainted":           "is tainted",
	"replace_because_cannot_update":     "cannot be changed in place",
	"replace_by_request":                "its replacement was requested",
	"replace_by_triggers":               "replaced together with a resource that it names",
	"delete_because_no_resource_config": "is not in the module any more",
	"delete_because_no_module":          "its module is not called any more",
	"delete_because_wrong_repetition":   "count or for_each was added or removed",
	"delete_because_count_index":        "count is smaller now",
	"delete_because_each_key":           "its key is not in for_each any more",
	"delete_because_no_move_target":     "was moved to an address that is not in the module",
}

// planReason says in words why a resource is changed in this way.
func planReason(r apispec.ResourceChange) string {
	var all []string
	switch r.Action {
	case "delete", "replace", "update", "create":
	default:
		all = append(all, r.Action)
	}
	if from := apispec.Deref(r.PreviousAddress); from != "" {
		all = append(all, "moved from "+from)
	}
	if apispec.Deref(r.Imported) {
		all = append(all, "imported")
	}
	if apispec.Deref(r.Deposed) {
		all = append(all, "left from an earlier replacement")
	}
	if why := planReasons[apispec.Deref(r.Reason)]; why != "" {
		all = append(all, why)
	}
	if apispec.Deref(r.CreateFirst) {
		all = append(all, "the new one is created first")
	}
	return strings.Join(all, ", ")
}

// Consequence says what an approval of the plan does.
func (v *planView) Consequence() string {
	if v.Content.Plan == nil && v.Plan == nil {
		return "There is no plan yet: an approval permits the task to apply what Consul shows now. The plan that is made then is judged like every other one."
	}
	all := v.resources("destroy", "replace", "change", "create")
	if all == "" {
		return "No resource is created, changed or destroyed."
	}
	return "Terraform will " + all + "."
}

// resources says to how many resources each of these will happen; "" if to none.
func (v *planView) resources(verbs ...string) string {
	counts := map[string]int{}
	switch c := v.Changes; {
	case v.Plan != nil:
		for _, g := range v.Groups {
			counts[strings.ToLower(g.Name)] = g.Count
		}
	case c != nil: // in which a replacement is two changes
		counts = map[string]int{"destroy": c.Destroy, "change": c.Change, "create": c.Add}
	}
	var all []string
	for _, verb := range verbs {
		switch n := counts[verb]; {
		case n == 0:
		case len(all) == 0:
			all = append(all, verb+" "+counted(n, "resource"))
		default:
			all = append(all, verb+" "+number(n))
		}
	}
	if last := len(all) - 1; last > 0 {
		all = []string{strings.Join(all[:last], ", ") + " and " + all[last]}
	}
	return strings.Join(all, "")
}

// planText is a plan in Terraform's words.
type planText struct {
	HTML  template.HTML // with colors; "" if there is none, or if it is too long for the page
	Lines int
}

// maxPlanText is how many bytes of Terraform's words the page shows.
const maxPlanText = 128 << 10

func planTextOf(text string) planText {
	text = strings.Trim(text, "\n")
	if text == "" {
		return planText{}
	}
	t := planText{Lines: 1 + strings.Count(text, "\n")}
	if len(text) <= maxPlanText {
		t.HTML = printed(text)
	}
	return t
}
