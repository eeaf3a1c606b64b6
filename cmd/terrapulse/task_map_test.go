package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

func TestTaskMap_SaysWhatFeedsTasksAndWhatTheyHave(t *testing.T) {
	made, text := state.NewMade("r1", []string{"module.web.aws_lb.front", `module.web.aws_subnet.s["a"]`})
	made.Addresses.Name = "r1-resources"
	_, store, cfg := stored(t, time.Now(), []situation{{name: "web", task: state.Task{Applied: state.Applied{Made: made}}}, {name: "dns"}})
	if err := state.SaveLog(t.Context(), store, "web", made.Addresses.Name, []byte(text), time.Time{}); err != nil {
		t.Fatal(err)
	}
	fed := state.Inputs{Kind: "services", Elements: map[string]string{"web-1.n4.dc1": "x"}, Sources: []string{condition.Source{Of: condition.OfService, Name: "web", Node: "n4"}.String()},
		Details: map[string]string{"web-1.n4.dc1": condition.Detail{Group: "web", ID: "web-1", Address: "10.0.4.1:80"}.String()}}
	if err := state.SaveInputs(t.Context(), store, "web", fed); err != nil {
		t.Fatal(err)
	}
	url := serveStored(t, store, cfg)
	out, _ := commandOf(t, exitOK, "task", "map", "-http-addr", url)
	wantText(t, out, "TASK  READS        RESOURCES", "web   service web  aws_lb 1, aws_subnet 1", "dns   service web  not known", `module.web.aws_subnet.s["a"]  web`,
		"APPLIED WITH  SERVICE  NODE  ADDRESS      TASK", "web-1.n4.dc1  web      n4    10.0.4.1:80  web")
	out, _ = commandOf(t, exitOK, "task", "map", "-http-addr", url, "-type=aws_lb", "-json", "web")
	var m apispec.MapResponse
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Counts.Tasks != 1 || len(*m.Addresses) != 1 || (*m.Addresses)[0].Address != "module.web.aws_lb.front" {
		t.Errorf("%v: %s", err, out)
	}
	out, _ = commandOf(t, exitOK, "task", "map", "-http-addr", url, "-node=n4")
	wantText(t, out, "web   service web  aws_lb 1, aws_subnet 1", `module.web.aws_subnet.s["a"]  web`, "Of 1 other task, the nodes are not known before the next apply.")
	out, _ = commandOf(t, exitOK, "task", "map", "-http-addr", url, "-node=n5")
	wantText(t, out, "No task matches.", "Of 1 other task, the nodes")
	out, _ = commandOf(t, exitOK, "task", "map", "-http-addr", url, "-service=other")
	wantText(t, out, "No task matches.")
}
