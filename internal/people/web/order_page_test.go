package web_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestOrder_ThePageOfATaskNamesItsNeighbours(t *testing.T) {
	n := newNetwork(t)
	for path, words := range map[string][]string{
		"/ui/tasks/load-balancer": {"Comes after", ">edge-firewall</a>", "Comes before", ">dns-internal</a>"},
		"/ui/order":               {"<svg", `<a href="/ui/tasks/edge-firewall"><rect class="ask"`, ">waiting</text>", "Comes before"},
	} {
		r, err := http.Get(n.url + path)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		_ = r.Write(&body)
		for _, word := range words {
			if !strings.Contains(body.String(), word) {
				t.Errorf("%s does not show %s", path, word)
			}
		}
	}
}
