package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/stores"
)

func TestAShellCompletesWhatIsTyped(t *testing.T) {
	t.Parallel()
	api := newStandIn(t)
	for _, begin := range []string{"", "w", "d"} { // it does not select, and Consul-Terraform-Sync does not either
		api.answers["GET /v1/tasks?limit=1000&name="+begin+"%2A"] = `200 {"request_id":"1","tasks":[{"name":"web"},{"name":"walls"},{"name":"db"}]}`
	}
	dir, env := t.TempDir(), []string{"CTS_ADDRESS=" + api.URL}
	file := taskFile(t, "tasks.hcl", newTask+strings.Replace(newTask, "newt", "other", 1))
	if err := os.WriteFile(filepath.Join(dir, "some.hcl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		line string
		want []string
	}{
		{"terrapulse ta", []string{"task"}},
		{"terrapulse task ", []string{"create", "delete", "disable", "enable", "graph", "map"}},
		{"terrapulse task create -task", []string{"-task-file"}},
		{"terrapulse task create -task-file so", []string{"some.hcl"}},
		{"terrapulse task disable ", []string{"db", "walls", "web"}},
		{"terrapulse task disable w", []string{"walls", "web"}},
		{"terrapulse task delete -auto-approve d", []string{"db"}},
		{"terrapulse task delete -json -auto-approve d", []string{"db"}},
		{"terrapulse run -json d", []string{"db"}},
		{"terrapulse version -", []string{"-json"}},
		{"terrapulse task enable -http-addr http://127.0.0.1:1 ", nil},
		{"terrapulse start -log-level ", []string{"DEBUG", "ERR", "INFO", "TRACE", "WARN"}},
		{"terrapulse start -config-dir fo", []string{"folder/"}},
		{"terrapulse start -client", nil},
		{"terrapulse inspect -config-file " + file + " ", []string{"newt", "other"}},
		{"terrapulse inspect -config-file=" + file + " o", []string{"other"}},
		{"terrapulse start -config-file " + file + " -inspect-task n", []string{"newt"}},
		{"terrapulse status -", []string{"-after", "-ca-cert", "-ca-path", "-client-cert", "-client-key", "-config-dir", "-config-file", "-enabled", "-health", "-http-addr", "-json", "-label", "-limit", "-name", "-phase", "-reason", "-search", "-sort", "-ssl-verify", "-stack", "-store", "-token", "-token-file"}},
		{"terrapulse status -phase f", []string{"failing"}},
		{"consul-terraform-sync task dis", []string{"disable"}},
	} {
		got := completions(t, dir, env, test.line)
		slices.Sort(got)
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("after %q a shell shows %q, want %q", test.line, got, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "sync-tasks", stores.DefaultFile)); err == nil {
		t.Error("a store was made")
	}
}

func TestAShellCompletesTheTasksThatAStoreKnows(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	wantCode(t, s.run("-once", "-config-file", s.config(s.task("lb", onWeb))), exitOK)
	for _, command := range []string{"runs", "logs"} {
		line := "terrapulse " + command + " -store sqlite:" + s.path("state.db") + " "
		if got := completions(t, s.dir, s.env, line); fmt.Sprint(got) != "[lb]" {
			t.Errorf("after %q a shell shows %q", line, got)
		}
	}
}

func TestComplete_ArgumentsThatHelpNamesAreCompleted(t *testing.T) {
	for _, c := range (&app{}).commands() {
		if c.examples == nil { // a group
			continue
		}
		usage, _, _ := strings.Cut(c.help, "\n")
		last := usage[strings.LastIndex(usage, " ")+1:]
		takes := strings.ToLower(last) != last && !strings.HasPrefix(last, "-")
		if takes != (c.args != nil) {
			t.Errorf("%q takes arguments: %t; they are completed: %t", usage, takes, c.args != nil)
		}
	}
}

// The installation itself writes to the home folder of the user who runs the test.
func TestTheFlagsThatInstallCompletionAreNotThoseOfStart(t *testing.T) {
	r := program(t, os.Args[0], "", "-autocomplete-install", "-autocomplete-uninstall")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "autocomplete", "not both")
}
