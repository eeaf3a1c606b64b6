package selection_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// parse reads a query as it is in an address.
func parse(t *testing.T, query string) (selection.Selection, error) {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return selection.Parse(q)
}

func names(tasks []apispec.TaskOverview) string {
	var all []string
	for _, t := range tasks {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

// network are tasks in the order of a configuration.
func network() []apispec.TaskOverview {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return []apispec.TaskOverview{
		{Name: "web-edge", Phase: apispec.PhaseApplied, Enabled: true, Watches: new("services api"), Due: new(noon.Add(time.Hour)), Labels: &map[string]string{"site": "muc", "tier": "edge"}},
		{Name: "dns", Phase: apispec.PhaseFailing, Enabled: true, Reason: apispec.Reason{Code: state.ReasonBackoff, Text: "no route"}, Labels: &map[string]string{"site": "muc"}},
		{Name: "Web-core", Phase: apispec.PhaseStopped, Reason: apispec.Reason{Code: state.ReasonDisabled, Text: "disabled"}},
		{Name: "web", Phase: apispec.PhaseSoon, Enabled: true, Due: &noon, Labels: &map[string]string{"site": "ber"}},
		{Name: "old", Phase: apispec.PhaseRemoved},
	}
}

func TestSelection_EachParameterSelects(t *testing.T) {
	for query, want := range map[string]string{
		"":                                   "web-edge dns Web-core web old", // the order of the configuration
		"enabled=true":                       "dns web web-edge",
		"enabled=false":                      "Web-core old",
		"phase=soon&phase=failing":           "dns web",
		"phase=attention":                    "dns",
		"phase=attention&phase=removed":      "dns old",
		"name=web":                           "Web-core web web-edge",
		"name=WEB-":                          "Web-core web-edge",
		"name=web-*":                         "Web-core web-edge",
		"name=*e":                            "Web-core web-edge",
		"name=?eb":                           "web",
		"name=web*&enabled=true":             "web web-edge",
		"name=[w]eb*":                        "",                              // only * and ? are special
		"name=":                              "web-edge dns Web-core web old", // as without it
		"task=dns&task=web&task=nothing":     "dns web",
		"reason=backing_off":                 "dns",
		"search=API+edge":                    "web-edge",
		"search=site%3Dmuc":                  "dns web-edge",
		"label=site%3Dmuc":                   "dns web-edge",
		"label=site%3Dmuc,ber":               "dns web web-edge",
		"label=site%3D":                      "Web-core old",
		"label=site%3D,ber":                  "Web-core old web",
		"label=site%3Dmuc&label=tier%3Dedge": "web-edge",
		"label=Site%3Dmuc":                   "", // capitals count
		"group=site":                         "web dns web-edge Web-core old",
		"group=site&sort=-name":              "web web-edge dns old Web-core",
		"group=site&limit=2&after=dns":       "web-edge Web-core",
		"group=site&limit=2&before=web-edge": "web dns",
		"group=site&label=site%3Dmuc":        "dns web-edge",
		"sort=-name":                         "web-edge web old dns Web-core",
		"sort=phase":                         "dns Web-core old web web-edge",
		"sort=due":                           "web web-edge Web-core dns old",
		"limit=2":                            "Web-core dns",
		"limit=0":                            "",
		"limit=2&after=dns":                  "old web",
		"limit=2&after=e":                    "old web", // of a task that is gone
		"limit=2&before=web":                 "dns old",
		"limit=3&before=dns":                 "Web-core dns old", // the first part is full
		"limit=1&after=web&sort=due":         "web-edge",
		"limit=1&after=gone&sort=due":        "web", // it begins again
		"after=dns&phase=soon":               "web", // which is not in dns's phase
		"limit=1&before=old&phase=soon":      "web",
	} {
		s, err := parse(t, query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		if got := names(s.Of(network(), nil).Tasks); got != want {
			t.Errorf("%s selects %q, want %q", query, got, want)
		}
		again, err := selection.Parse(s.Query())
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Errorf("%s: the query of the selection selects something else: %v\n%s", query, err, diff)
		}
	}
}

func TestSelection_ErrorNamesTheParameter(t *testing.T) {
	for query, want := range map[string]string{
		"phase=broken":         `parameter phase is "broken": use applied, soon, running, waiting, stopped, failing, unreadable, drifted, unverified, removed, attention`,
		"phase=":               `parameter phase is "": use applied`,
		"enabled=yes":          `parameter enabled is "yes": use true or false`,
		"enabled=":             `parameter enabled is "": use true or false`,
		"limit=-1":             `parameter limit is "-1": use a number from 0 to 1000`,
		"limit=1001":           `parameter limit is "1001": use a number from 0 to 1000`,
		"limit=many":           `parameter limit is "many": use a number from 0 to 1000`,
		"limit=1&limit=2":      `parameter limit is "1, 2": give it only once`,
		"label=muc":            `parameter label is "muc": use KEY=VALUE, such as site=muc`,
		"label=%3Dmuc":         `parameter label is "=muc": use KEY=VALUE, such as site=muc`,
		"group=a+b":            `parameter group is "a b": use the key of a label, such as site`,
		"attention=x":          `parameter attention is "x": use a number from 0 to 1000`,
		"sort=size":            `parameter sort is "size": use name, phase, last, due, or one of them with - before it`,
		"after=web&before=dns": `parameter before is "dns": use it without after`,
		"name=a&name=b":        `parameter name is "a, b": give it only once`,
	} {
		if _, err := parse(t, query); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}

func TestSelection_PagesByNameMissNoTaskThoughOthersComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching("[a-e]{1,3}")
		stays := rapid.SliceOfNDistinct(name, 1, 30, rapid.ID).Draw(t, "tasks that stay")
		s := selection.Selection{Sort: rapid.SampledFrom([]string{"", "name", "-name"}).Draw(t, "sort")}.First(rapid.IntRange(1, 7).Draw(t, "limit"))
		seen := map[string]int{}
		for pages := 0; ; pages++ {
			all := slices.Concat(stays, rapid.SliceOfDistinct(name.Filter(func(n string) bool { return !slices.Contains(stays, n) }), rapid.ID).Draw(t, "tasks that come and go"))
			tasks := make([]apispec.TaskOverview, len(all))
			for i, name := range all {
				tasks[i].Name = name
			}
			part := s.Of(tasks, nil)
			for _, task := range part.Tasks {
				seen[task.Name]++
			}
			if part.Next == "" {
				break
			}
			if s.After = part.Next; pages > 200 {
				t.Fatal("the pages do not end")
			}
		}
		for _, name := range stays {
			if seen[name] != 1 {
				t.Fatalf("task %s is on %d pages", name, seen[name])
			}
		}
	})
}

func TestSelection_CountsAreOfAllTasks(t *testing.T) {
	all := apispec.Overview{Tasks: network()}
	o := all
	s := selection.Selection{Name: "web", Urgent: 5}.First(1)
	if err := s.Apply(&o); err != nil {
		t.Fatal(err)
	}
	want := &apispec.TaskCounts{All: 5, Attention: 1, Matches: 3, Phases: map[string]int{"applied": 1, "failing": 1, "removed": 1, "soon": 1, "stopped": 1}}
	if diff := cmp.Diff(want, o.Counts); diff != "" {
		t.Error(diff)
	}
	if names(o.Tasks) != "Web-core" || *o.Next != "Web-core" || o.Previous != nil || names(*o.Attention) != "dns" {
		t.Errorf("%+v", o)
	}
	before := *o.Digest
	for i := range all.Tasks {
		changed := apispec.Overview{Tasks: network()}
		changed.Tasks[i].Reason.Text += "!"
		if err := s.Apply(&changed); err != nil || *changed.Digest == before {
			t.Errorf("task %s has changed and the digest has not: %v", network()[i].Name, err)
		}
	}
	s.After = "Web-core"
	o = all
	if err := s.Apply(&o); err != nil || *o.Digest != before || o.Counts.Skipped != 1 || *o.Next != "web" || *o.Previous != "web" {
		t.Errorf("the next part: %v, %+v", err, o)
	}
}

func TestSelection_CountsEachGroupOfAllThatMatch(t *testing.T) {
	s, err := parse(t, "group=site&limit=1&enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	o := apispec.Overview{Tasks: network()}
	if err := s.Apply(&o); err != nil {
		t.Fatal(err)
	}
	want := []apispec.TaskGroup{{Value: "ber", Tasks: 1, Phases: map[string]int{"soon": 1}}, {Value: "muc", Tasks: 2, Phases: map[string]int{"applied": 1, "failing": 1}}}
	if diff := cmp.Diff(&want, o.Groups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&[]string{"site", "tier"}, o.LabelKeys); diff != "" {
		t.Error(diff)
	}
}
