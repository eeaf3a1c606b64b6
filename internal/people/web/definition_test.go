package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// load returns the only task of a file as the API shows it.
func load(t *testing.T, dir, text string) apispec.Task {
	t.Helper()
	cfg := configtest.Load(t, dir, "tasks.hcl", text)
	return apiview.Task(&cfg.Tasks[0])
}

func TestDefinition_IsATaskFileWithTheSameMeaning(t *testing.T) {
	const text = `task {
  name        = "load-balancer"
  description = "pools, \"F5\" and € {{more}}"
  enabled     = false
  module      = "./m"
  variables = {
    count = 2
    names = "[\"a\", \"b\"]"
    rule  = "{ port = 80, \"with space\" = true }"
  }
  condition "services" {
    regexp = "^web\\d$"
    filter = "\"v1\" in Service.Tags"
    cts_user_defined_meta { owner = "net \"ops\"" }
  }
  module_input "consul-kv" {
    path    = "lb/"
    recurse = true
  }
  module_input "config-entries" {
    kind   = "service-intentions"
    regexp = "^web"
  }
  module_input "resources" {
    group    = "multicluster"
    version  = "v2"
    kind     = "exportedservices"
    interval = "1m"
  }
  buffer_period { min = "3s" }
  guard {
    max_removed = 3
    max_destroy = 5
  }
  approval = "destructive"
  window {
    kind     = "allow"
    schedule = "0 22 * * Mon-Fri"
    duration = "6h"
    on       = ["apply"]
  }
  window {
    kind     = "deny"
    schedule = "0 0 24 12 *"
    duration = "72h"
  }
  check "policy" { command = ["conftest", "test"] }
  drift { every = "24h" }
}
`
	dir := t.TempDir()
	want := load(t, dir, text)
	shown := sourceOf(want, "")
	if diff := cmp.Diff(want, load(t, dir, shown)); diff != "" {
		t.Errorf("%s\n%s", shown, diff)
	}
	shown = sourceOf(want, "tasks.yaml")
	again := apiview.Task(&configtest.Load(t, dir, "tasks.yaml", shown).Tasks[0])
	if diff := cmp.Diff(want, again); diff != "" || !strings.HasPrefix(shown, "task:\n  - name: load-balancer\n") {
		t.Errorf("in YAML:\n%s\n%s", shown, diff)
	}
	catalog := load(t, dir, "task {\n name = \"x\"\n module = \"./m\"\n condition \"catalog-services\" { regexp = \".*\" }\n}\n")
	const least = `task {
  name   = "x"
  module = "./m"

  condition "catalog-services" {
    regexp              = ".*"
    use_as_module_input = true
  }
}
`
	if got := sourceOf(catalog, "tasks.hcl"); got != least {
		t.Errorf("it is shown as\n%s", got)
	}
}
