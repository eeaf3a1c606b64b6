package web

import (
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestActions_SayWhatAnApprovalDoes(t *testing.T) {
	planned := apispec.Content{Plan: new("p")}
	for name, tt := range map[string]struct {
		kind     apispec.RunKind
		plan     apispec.WaitingPlan
		confirm  string
		contains string
	}{
		"it changes":  {apispec.RunKindApply, apispec.WaitingPlan{Content: planned, Changes: &apispec.Changes{Change: 1}}, "Approve this plan", "Terraform will change 1 resource. The task applies exactly this plan"},
		"it replaces": {apispec.RunKindApply, apispec.WaitingPlan{Content: planned, Changes: &apispec.Changes{Add: 2, Destroy: 2}}, "Approve, and destroy 2 resources", "Terraform will destroy 2 resources and create 2."},
		"it has a plan": {apispec.RunKindApply, apispec.WaitingPlan{Content: planned, Changes: &apispec.Changes{Add: 2, Destroy: 3}, Plan: &apispec.Plan{Resources: []apispec.ResourceChange{
			{Action: "create"}, {Action: "replace"}, {Action: "delete"}, {Action: "delete"}, {Action: "read"}}}}, "Approve, and destroy 2 resources and replace 1", "Terraform will destroy 2 resources, replace 1 and create 1. The task"},
		"it destroys it all":  {apispec.RunKindDestroy, apispec.WaitingPlan{Content: planned, Changes: &apispec.Changes{Destroy: 1}}, "Approve, and destroy 1 resource", "Everything that the task has made is destroyed."},
		"only outputs change": {apispec.RunKindApply, apispec.WaitingPlan{Content: planned, Changes: &apispec.Changes{}}, "Approve this plan", "No resource is created, changed or destroyed."},
		"there is no plan":    {apispec.RunKindApply, apispec.WaitingPlan{}, "Approve this plan", "permits the task to apply what Consul shows now"},
	} {
		tt.plan.ID = "w1"
		page := taskPage{Plan: planOf(tt.plan), Task: apispec.TaskOverview{Name: "web", Run: &apispec.Run{Kind: tt.kind, State: apispec.RunStateWaiting}}}
		all := actionsOf(page)
		if len(all) < 2 || all[0].Name != "approve" || all[0].Confirm != tt.confirm || !strings.Contains(all[0].Consequence, tt.contains) || all[0].Plan != "w1" || all[1].Name != "reject" || all[1].Plan != "w1" {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestPlan_SeparatesTheModuleFromTheAddressInIt(t *testing.T) {
	for address, want := range map[string]string{
		"module.lb.f5_pool.http":                 "module.lb. f5_pool.http",
		"module.lb.module.pools.f5_pool.http[0]": "module.lb.module.pools. f5_pool.http[0]",
		`module.lb["a.b"].f5_pool.http`:          ` module.lb["a.b"].f5_pool.http`,
		`f5_pool.http["module.x.y"]`:             ` f5_pool.http["module.x.y"]`,
		"module.lb":                              " module.lb",
	} {
		r := planResourceOf(apispec.ResourceChange{Address: address})
		if got := r.Module + " " + r.Local; got != want || r.Module+r.Local != address {
			t.Errorf("%s is split into %q, want %q", address, got, want)
		}
	}
}

func TestPlan_TextIsColoredAndSafe(t *testing.T) {
	const text = "  # a.b will be destroyed\n  - resource \"a\" \"b\" {\n      ~ name = \"<x>\" -> \"y\"\n        id   = 1\n    }\n-/+ destroy and then create replacement\nPlan: 1 to add."
	const want = "<span class=\"headline\">  # a.b will be destroyed</span>\n<span class=\"removed\">  - resource &#34;a&#34; &#34;b&#34; {</span>\n" +
		"<span class=\"altered\">      ~ name = &#34;&lt;x&gt;&#34; -&gt; &#34;y&#34;</span>\n        id   = 1\n    }\n<span class=\"removed\">-/+ destroy and then create replacement</span>\n<span class=\"headline\">Plan: 1 to add.</span>"
	if got := planTextOf("\n" + text + "\n"); string(got.HTML) != want || got.Lines != 7 {
		t.Errorf("%d lines:\n%s", got.Lines, got.HTML)
	}
	if got := planTextOf(strings.Repeat("x\n", maxPlanText)); got.HTML != "" || got.Lines != maxPlanText {
		t.Errorf("a long text has %d lines, and %d bytes of it are shown", got.Lines, len(got.HTML))
	}
}

func TestPlan_TiesResourcesToTheEntriesThatCauseThem(t *testing.T) {
	entries := []apispec.EntryChange{{Name: "web-3.n.dc1", ID: new("web-3"), Action: apispec.EntryActionRemoved}, {Name: "network/mtu", Action: apispec.EntryActionChanged}}
	v := planOf(apispec.WaitingPlan{Entries: &apispec.EntryChanges{Entries: &entries}, Plan: &apispec.Plan{Resources: []apispec.ResourceChange{
		{Address: "a.b", Action: "delete", Causes: &[]string{"web-3.n.dc1", "network/mtu", "not listed", "x", "y"}}, {Address: "a.c", Action: "delete"}}}})
	got := v.Groups[0].Resources
	want := []planCause{{apispec.EntryActionRemoved, "web-3"}, {apispec.EntryActionChanged, "network/mtu"}, {"", "not listed"}}
	if !slices.Equal(got[0].Causes, want) || got[0].More != 2 || got[1].Causes != nil || got[1].More != 0 {
		t.Errorf("%+v", got)
	}
}

func TestPlan_LongValuesAreShownWhereTheyDiffer(t *testing.T) {
	head, tail := strings.Repeat("h", 1000), strings.Repeat("ü", 1000)
	for name, tt := range map[string]struct{ before, after, wantBefore, wantAfter string }{
		"short values":   {"a", "b", "a", "b"},
		"in the middle":  {head + "old" + tail, head + "new" + tail, "…" + head[:60] + "old" + strings.Repeat("ü", 60) + "…", "…" + head[:60] + "new" + strings.Repeat("ü", 60) + "…"},
		"longer":         {head, head + "x", "…" + head[:60], "…" + head[:60] + "x"},
		"a new one":      {"–", tail, "–", strings.Repeat("ü", 600) + "…"},
		"only beginning": {"old" + head, "new" + head, "old" + head[:60] + "…", "new" + head[:60] + "…"},
	} {
		before, after := shortened(tt.before, tt.after)
		if before != tt.wantBefore || after != tt.wantAfter {
			t.Errorf("%s: %q and %q, want %q and %q", name, before, after, tt.wantBefore, tt.wantAfter)
		}
	}
}
