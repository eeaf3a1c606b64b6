package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// clicksBox clicks on a box of the drawing.
func clicksBox(b *browsertest.Browser, name string) {
	browsertest.Eval[bool](b, `(() => { const a = [...document.querySelectorAll('svg a')].find((a) => a.querySelector('text').textContent === '`+name+`');
		if (!a) throw new Error('no box `+name+`'); setTimeout(() => { location.href = a.getAttribute('href'); }); return true; })()`)
}

func TestMap_LeadsFromAServiceToAnAddressAndItsTask(t *testing.T) {
	n := newNetwork(t)
	on := func(service, node string) string {
		return condition.Source{Of: condition.OfService, Name: service, Node: node}.String()
	}
	fed := state.Inputs{Kind: "services", Elements: map[string]string{"printer-1.n4.dc1": "x", "scanner-1.n5.dc1": "x"}, Sources: []string{on("printer", "n4"), on("scanner", "n5")},
		Details: map[string]string{"printer-1.n4.dc1": condition.Detail{Group: "printer", ID: "printer-1", Address: "10.0.4.1:631"}.String(), "scanner-1.n5.dc1": condition.Detail{Group: "scanner", ID: "scanner-1"}.String()}}
	if err := state.SaveInputs(t.Context(), n.store, "switch-acls", fed); err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t)
	b.Open(n.url + "/ui/map?task=switch-acls")
	b.Until("Applied with", "printer-1", "n4", "10.0.4.1:631", "scanner-1", "n5")
	b.Accessible()
	b.Window(360, 800)
	if wide := b.Wide(); len(wide) > 0 {
		t.Errorf("on a phone, one has to scroll sideways to %v", wide)
	}
	b.Window(1200, 900)
	b.Click("printer") // in the row of the entry
	b.Comes("service=printer")
	b.Until("Applied with", "printer-1", "n4", "of what is selected")
	if text := b.Text("main"); strings.Contains(text, "scanner-1") {
		t.Errorf("the page shows entries of another source: %s", text)
	}
	b.Click("n4") // its node
	b.Comes("node=n4")
	b.Until("node n4", "switch-acls", "module.switch-acls.example_entry.instance", "printer-1", "of what is selected", "the nodes are not known before the next apply")
	if text := b.Text("main"); strings.Contains(text, "scanner-1") || strings.Contains(text, "edge-firewall") {
		t.Errorf("the page shows what is on other nodes: %s", text)
	}
	b.Accessible()
	b.Open(n.url + "/ui/map")
	b.Fill("Node", "n5"+kb.Enter)
	b.Comes("node=n5")
	b.Until("node n5", "switch-acls", "scanner-1")
	b.Open(n.url + "/ui/map?node=n6")
	b.Until("No task matches", "the nodes are not known before the next apply")
	b.Accessible()
	b.Open(n.url + "/ui/map")
	b.Until("service printer", "keys that begin with", "panos_address_group", "edge-firewall", "not known")
	clicksBox(b, "service printer")
	b.Until("service printer", "switch-acls", "1 task", "module.switch-acls.example_entry.instance[\"web-1.node-1.dc1\"]")
	b.Accessible()
	if strings.Contains(n.text("/ui/map?service=printer"), "vpn-routes") {
		t.Error("the page shows a task that the service does not feed")
	}
	b.Open(n.url + "/ui/map?service=api") // by its name, and by expressions
	b.Until("edge-firewall", "load-balancer", "panos_address_group")
	b.Click("panos_address_group")
	b.Until("1 task", "module.edge-firewall.panos_address_group.web")
	b.Accessible()
	if text := b.Text("main"); strings.Contains(text, "load-balancer") || strings.Contains(text, "example_entry.instance") {
		t.Errorf("the page shows what has no such resource:\n%s", text)
	}
	b.Click("edge-firewall")
	b.Until("Approve", "web-3")
	b.Click("on the map")
	b.Until("1 task", "panos_address_group.web", "service api")
	b.Open(n.url + "/ui/map?service=nothing")
	b.Until("names of every service") // the catalog has every service
	b.Open(n.url + "/ui/map?search=nothing-matches")
	b.Until("No task matches")
}
