package web_test

import "testing"

func TestOrder_ThePageOfATaskNamesItsNeighbours(t *testing.T) {
	n := newNetwork(t)
	n.page("/ui/tasks/load-balancer", "Comes after", ">edge-firewall</a>", "Comes before", ">dns-internal</a>")
	n.page("/ui/order", "<svg", `<a href="/ui/tasks/edge-firewall"><rect class="ask"`, ">waiting</text>", "Comes before")
}
