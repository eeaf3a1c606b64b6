package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabels_AreReadInEachFormat(t *testing.T) {
	want := map[string]string{"site": "muc", "rack": "12"}
	for name, file := range map[string]string{
		"f.hcl":  "task {\n name = \"web\"\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = \"muc\", rack = 12 }\n}\n",
		"f.json": `{"task": [{"name": "web", "module": "./m", "condition": {"services": {"names": ["web"]}}, "labels": {"site": "muc", "rack": "12"}}]}`,
		"f.yaml": "task:\n  name: web\n  module: ./m\n  condition: {services: {names: [web]}}\n  labels: {site: muc, rack: 12}\n",
	} {
		if diff := cmp.Diff(want, load(t, name, file).Tasks[0].Labels); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestLabels_ThereAreSixteenAtMost(t *testing.T) {
	cfg := load(t, "f.hcl", "port = 8558\n")
	labels := map[string]string{}
	for i := range maxLabels {
		labels[fmt.Sprint("key", i)] = "value"
	}
	definition := func() string {
		text, err := json.Marshal(map[string]any{"name": "web", "module": "./m", "condition": map[string]any{}, "labels": labels})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	right(t, cfg, definition())
	labels["one-more"] = "value"
	if said := wrong(t, cfg, definition()); !strings.Contains(said, "task.labels: the task has 17 labels; give it at most 16") {
		t.Error(said)
	}
}

// siteLabel is a task with this label, and with another name if it was renamed.
func siteLabel(t *testing.T, name, site, also string) *Config {
	t.Helper()
	return load(t, "f.hcl", fmt.Sprintf("task {\n name = %q\n module = \"./m\"\n condition \"services\" { names = [\"web\"] }\n labels = { site = %q }\n%s}\n", name, site, also))
}

func TestLabels_ChangeRunsNothing(t *testing.T) {
	was, is := siteLabel(t, "web", "muc", ""), siteLabel(t, "web", "ber", "")
	old, now := &was.Tasks[0], &is.Tasks[0]
	if was.Digest() != is.Digest() || old.Digest(was) != now.Digest(is) {
		t.Error("the definition differs: the task would run")
	}
	if diff := cmp.Diff([]string{"labels"}, Differences(was, old, is, now)); diff != "" {
		t.Errorf("a new bundle does not say what it changes: %s", diff)
	}
	renamed := siteLabel(t, "edge", "ber", "moved_from = \"web\"\n")
	if e := &renamed.Tasks[0]; old.DigestNamed(was, "edge") != e.Digest(renamed) || old.Shape(was) != e.Shape(renamed) {
		t.Error("a renamed task with another label is not the same one: it would run")
	}
}

func TestLabels_ChangeEndsNothingThatAPersonDid(t *testing.T) {
	was, is := siteLabel(t, "web", "muc", ""), siteLabel(t, "web", "ber", "")
	if now, _ := is.With([]Change{{Task: "web", Deleted: was.Tasks[0].Identity(was)}}); len(now.Tasks) != 0 {
		t.Error("a task that was deleted through the API is back because of a label")
	}
	if now, _ := is.With([]Change{{Task: "web", Enabled: new(false)}}); now.Tasks[0].Enabled || now.Tasks[0].Labels["site"] != "ber" {
		t.Errorf("the disabled task is %+v", now.Tasks[0])
	}
}

func TestLabels_TaskThatWasMadeThroughTheAPIKeepsThem(t *testing.T) {
	cfg := load(t, "f.hcl", "port = 8558\n")
	made := right(t, cfg, `{"name":"web","module":"./m","condition":{},"module_input":{"consul_kv":{"path":"web"}},"labels":{"site":"muc"}}`)
	kept, err := json.Marshal(made.Definition())
	if err != nil {
		t.Fatal(err)
	}
	again := right(t, cfg, string(kept))
	if again.Labels["site"] != "muc" {
		t.Errorf("it is kept as %s", kept)
	}
	if with := (&Config{Tasks: []Task{*again, {Name: "dns", Labels: map[string]string{"site": "ber"}}}}); with.LabelsInFiles("web") != nil || with.LabelsInFiles("dns")["site"] != "ber" || with.LabelsInFiles("vpn") != nil {
		t.Error("its labels count as if a file had them")
	}
	delete(made.Labels, "site")
	if kept, _ := json.Marshal(made.Definition()); strings.Contains(string(kept), "labels") {
		t.Errorf("the body of Consul-Terraform-Sync has gained a key: %s", kept)
	}
}
