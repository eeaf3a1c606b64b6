package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// changed are entries as Consul shows them: instances of two services, and a key.
var changed = []state.EntryChange{
	{Action: state.EntryRemoved, Name: "web-2.node2.dc1", Group: "web", ID: "web-2", Address: "10.0.0.2:8080"},
	{Action: state.EntryChanged, Name: "web-1.node1.dc1", Group: "web", ID: "web-1", Address: "10.0.1.1:8080", Before: "10.0.0.1:8080", Attributes: []string{"address"}},
	{Action: state.EntryChanged, Name: "api-1.node1.dc1", Group: "api", ID: "api-1", Address: "10.0.9.1:9090", Attributes: []string{"tags"}},
	{Action: state.EntryAdded, Name: "web-3.node3.dc1", Group: "web", ID: "web-3", Address: "10.0.0.3:8080"},
	{Action: state.EntryAdded, Name: "cfg/weight", Group: "keys"},
	{Action: state.EntryChanged, Name: "db-1.node1.dc1", Group: "db", ID: "db-1", Address: "10.0.0.5:5433", Before: "10.0.0.5:5432", Attributes: []string{"port"}},
}

const (
	web1, web2, web3, api1, weight = "web-1.node1.dc1", "web-2.node2.dc1", "web-3.node3.dc1", "api-1.node1.dc1", "cfg/weight"
)

func of(address string, action driver.Action, attributes ...driver.AttributeChange) driver.ResourceChange {
	return driver.ResourceChange{Address: address, Action: action, Attributes: attributes}
}

func value(path string, before, after any) driver.AttributeChange {
	return driver.AttributeChange{Path: path, Before: before, After: after}
}

func TestWithCauses_NamesTheEntriesThatCauseAChange(t *testing.T) {
	lines := func(servers ...string) string { return "# servers\n" + strings.Join(servers, "\n") + "\n" }
	for name, c := range map[string]struct {
		change driver.ResourceChange
		want   []string
	}{
		"key is the name":               {of(`module.web.aws_a.b["web-3.node3.dc1"]`, driver.Create), []string{web3}},
		"key is the id":                 {of(`module.web.aws_a.b["web-2"]`, driver.Delete), []string{web2}},
		"key is the address":            {of(`module.web.aws_a.b["10.0.0.3:8080"]`, driver.Create), []string{web3}},
		"key is the host":               {of(`module.web.aws_a.b["10.0.0.2"]`, driver.Delete), []string{web2}},
		"key is the service":            {of(`module.web.aws_a.b["web"]`, driver.Update), []string{web2, web1, web3}},
		"key of a module":               {of(`module.web.module.server["web-3"].aws_a.b[0]`, driver.Create), []string{web3}},
		"innermost key first":           {of(`module.web.module.pool["web"].aws_a.b["web-3"]`, driver.Create), []string{web3}},
		"key is a key of Consul":        {of(`module.web.aws_a.b["cfg/weight"]`, driver.Create), []string{weight}},
		"new entry destroys nothing":    {of(`module.web.aws_a.b["web-3"]`, driver.Delete), nil},
		"gone entry creates nothing":    {of(`module.web.aws_a.b["web-2"]`, driver.Create), nil},
		"service of what can cause it":  {of(`module.web.aws_a.b["web"]`, driver.Delete), []string{web2, web1}},
		"kind of an entry is no key":    {of(`module.web.aws_a.b["keys"]`, driver.Update), nil},
		"no key and no value":           {of(`module.web.random_id.b`, driver.Create), nil},
		"number is no entry":            {of(`module.web.aws_a.b[1]`, driver.Update, value("count", 1, 2)), nil},
		"value of a new resource":       {of("aws_a.b", driver.Create, value("target", nil, "10.0.0.3")), []string{web3}},
		"value of a resource that goes": {of("aws_a.b", driver.Delete, value("target", "10.0.0.2:8080", nil)), []string{web2}},
		"value that begins like it":     {of("aws_a.b", driver.Create, value("target", nil, "10.0.0.30"), value("name", nil, "web-3b"), value("other", nil, "my-web-3")), nil},
		"gone entry in a new value":     {of("aws_a.b", driver.Create, value("target", nil, "10.0.0.2")), nil},
		"new address":                   {of("aws_a.b", driver.Update, value("target", "10.0.0.1:8080", "10.0.1.1:8080")), []string{web1}},
		"new port":                      {of("aws_a.b", driver.Update, value("target", "10.0.0.5:5432", "10.0.0.5:5433")), []string{"db-1.node1.dc1"}},
		"URL":                           {of("aws_a.b", driver.Update, value("url", "http://10.0.0.2:8080/health", "http://10.0.0.3:8080/health")), []string{web2, web3}},
		"network":                       {of("aws_a.b", driver.Create, value("cidr", nil, "10.0.0.3/32")), []string{web3}},
		"list whose indexes move": {of("aws_a.b", driver.Update, value("servers[0]", "10.0.0.2", "10.0.0.9"), value("servers[1]", "10.0.0.9", "10.0.0.3")),
			[]string{web2, web3}},
		"map":                            {of("aws_a.b", driver.Update, value(`servers["web-3"]`, nil, "x"), value("n", 1, 2)), []string{web3}},
		"value is an object":             {of("aws_a.b", driver.Create, value("servers", nil, map[string]any{"web-3": []any{"10.0.0.3", 8080}})), []string{web3}},
		"changed line of a file":         {of("local_file.f", driver.Replace, value("content", lines("a web-0", "b api-1 weight 5"), lines("a web-0", "b api-1 weight 7"))), []string{api1}},
		"new line of a file":             {of("local_file.f", driver.Replace, value("content", lines("x api-1"), lines("x web-3 10.0.0.3:8080", "x api-1"))), []string{web3}},
		"line that is about two entries": {of("local_file.f", driver.Update, value("content", `["api-1","web-2"]`, `["api-1"]`)), []string{web2}},
		"sensitive value":                {of("aws_a.b", driver.Create, driver.AttributeChange{Path: "target", After: "10.0.0.3", Sensitive: true}), nil},
		"key that has quotes":            {of(`aws_a.b["a\"b"]`, driver.Create), nil},
	} {
		got := driver.Plan{Resources: []driver.ResourceChange{c.change}}.WithCauses(changed).Resources[0].Causes
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWithCauses_TextOfTwoEntriesIsUnclear(t *testing.T) {
	entries := []state.EntryChange{
		{Action: state.EntryAdded, Name: "web.n1.dc1", Group: "web", ID: "web", Address: "10.0.0.1:80"},
		{Action: state.EntryAdded, Name: "web.n2.dc1", Group: "web", ID: "web", Address: "10.0.0.1:81"},
	}
	plan := driver.Plan{Resources: []driver.ResourceChange{
		of("aws_a.b", driver.Create, value("name", nil, "web"), value("ip", nil, "10.0.0.1")), // perhaps of one that has not changed
		of("aws_a.c", driver.Create, value("address", nil, "10.0.0.1:81")),
	}}.WithCauses(entries)
	if got := plan.Resources; got[0].Causes != nil || !cmp.Equal(got[1].Causes, []string{"web.n2.dc1"}) {
		t.Errorf("%v, %v", got[0].Causes, got[1].Causes)
	}
}

func TestWithCauses_ResourcesOfOneModuleInstanceShareThem(t *testing.T) {
	plan := driver.Plan{Resources: []driver.ResourceChange{
		of(`module.web.module.server["blue"].aws_a.b`, driver.Create, value("target", nil, "10.0.0.3")),
		of(`module.web.module.server["blue"].random_id.c`, driver.Create),
		of(`module.web.module.server["green"].random_id.c`, driver.Create),
		of(`module.web.random_id.c["blue"]`, driver.Create),
		of(`module.web.random_id.d`, driver.Create),
	}}.WithCauses(changed)
	var got []int
	for _, r := range plan.Resources {
		got = append(got, len(r.Causes))
	}
	if diff := cmp.Diff([]int{1, 1, 0, 0, 0}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithCauses_EachResourceOfAModuleInstanceHasTheSame(t *testing.T) {
	var plan driver.Plan
	for n := range 3 { // these name the entry
		plan.Resources = append(plan.Resources, of(fmt.Sprintf(`module.web.module.server["blue"].aws_a.b[%d]`, n), driver.Create, value("target", nil, "10.0.0.3")))
	}
	for n := range 3 { // and these name none
		plan.Resources = append(plan.Resources, of(fmt.Sprintf(`module.web.module.server["blue"].random_id.c[%d]`, n), driver.Create))
	}
	for _, r := range plan.WithCauses(changed).Resources {
		if !cmp.Equal(r.Causes, []string{web3}) {
			t.Errorf("%s has the causes %v", r.Address, r.Causes)
		}
	}
}

func TestWithCauses_LeavesThePlanAsItIs(t *testing.T) {
	plan := driver.Plan{Resources: []driver.ResourceChange{of(`aws_a.b["web-3"]`, driver.Create)}}
	with := plan.WithCauses(changed)
	if len(with.Resources[0].Causes) != 1 || plan.Resources[0].Causes != nil {
		t.Errorf("%v; the plan itself has %v", with.Resources[0].Causes, plan.Resources[0].Causes)
	}
}

func TestWithCauses_AreFewForEachResource(t *testing.T) {
	var entries []state.EntryChange
	for n := range 1000 {
		entries = append(entries, state.EntryChange{Action: state.EntryChanged, Name: fmt.Sprint("web-", n), ID: fmt.Sprint("web-", n), Group: "web"})
	}
	var plan driver.Plan
	for n := range 2000 {
		plan.Resources = append(plan.Resources, of(fmt.Sprintf(`aws_a.b%d["web"]`, n), driver.Update))
	}
	all := 0
	for _, r := range plan.WithCauses(entries).Resources {
		if all += len(r.Causes); len(r.Causes) > 20 {
			t.Fatalf("%d causes", len(r.Causes))
		}
	}
	if all != 10_000 {
		t.Errorf("%d causes", all)
	}
}

func BenchmarkWithCauses(b *testing.B) {
	var entries []state.EntryChange
	var plan driver.Plan
	for n := range 5000 {
		address := fmt.Sprintf("10.0.%d.%d:8080", n/250, n%250)
		entries = append(entries, state.EntryChange{Action: state.EntryAdded, Name: fmt.Sprintf("web-%d.node.dc1", n), ID: fmt.Sprint("web-", n), Group: "web", Address: address})
		plan.Resources = append(plan.Resources, of(fmt.Sprintf("module.m.aws_a.b[%d]", n), driver.Create, value("name", nil, "server"), value("target", nil, address), value("description", nil, strings.Repeat("some text ", 20))))
	}
	for b.Loop() {
		plan.WithCauses(entries)
	}
}
