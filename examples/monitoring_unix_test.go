//go:build unix

package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const monitored = `
port: %d
id: one
api:
  url: https://network.example.com
high_availability:
  cluster: {name: monitored}
consul:
  service_registration: {enabled: false}
buffer_period: {enabled: false}
notify:
  - webhook: {url: "http://127.0.0.1:1"} # nothing listens there
task:
  - name: works
    module: ./works
    labels: {site: muc}
    condition: {services: {names: [web]}}
  - name: fails
    module: ./fails
    condition: {services: {names: [web]}}
  - name: waits
    module: ./works
    approval: always
    condition: {services: {names: [web]}}
`

// What a running instance shows has every metric and label that the rules and the dashboard use.
func TestMonitoring_UsesOnlyWhatAnInstanceShows(t *testing.T) {
	t.Parallel()
	testtools.Promtool(t) // which comes with what the checker is made of
	consul, dir, port := consultest.Start(t), t.TempDir(), testtools.FreePort(t)
	if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080}); err != nil {
		t.Fatal(err)
	}
	const variable = "variable \"services\" {}\n"
	for name, text := range map[string]string{
		"tasks.yaml":    fmt.Sprintf(monitored, port),
		"works/main.tf": variable + `resource "terraform_data" "web" { input = var.services }`,
		"fails/main.tf": variable + "resource \"terraform_data\" \"web\" {\n  lifecycle {\n    precondition {\n      condition     = false\n      error_message = \"it fails\"\n    }\n  }\n}",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	startInstance(t, dir, []string{"CONSUL_HTTP_ADDR=" + consul.Addr()}, "start", "-config-file", "tasks.yaml")
	var shown string
	eventually(t, "it shows what happened", func() bool {
		shown = get(at + "/v1/metrics")
		for _, want := range []string{
			`terrapulse_task_attention{state="failing",task="fails"} 1`, `terrapulse_task_attention{state="waiting_for_approval",task="waits"} 1`,
			`terrapulse_resources_total{action="added",task="works"} 1`, `terrapulse_runs_total{outcome="failed",task="fails"}`,
			`terrapulse_task_labels{label_site="muc",task="works"} 1`, `terrapulse_pages_info{url="https://network.example.com"} 1`, `terrapulse_last_good_tick_age_seconds `,
		} {
			if !strings.Contains(shown, want) {
				return false
			}
		}
		return !strings.Contains(shown, "\nterrapulse_events_undelivered 0\n")
	})
	scrape := filepath.Join(t.TempDir(), "scrape")
	write(t, scrape, shown)
	check := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./monitoring", scrape,
		example(t, "monitoring/prometheus/rules.yaml"), example(t, "monitoring/grafana/terrapulse.json"))
	check.Dir = filepath.Join(testtools.Root(t), "tools", "examples")
	check.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	rules := read(t, example(t, "monitoring/prometheus/rules.yaml"))
	for _, page := range regexp.MustCompile(`label "url" }}(/ui/.*?){{ end }}'`).FindAllStringSubmatch(rules, -1) {
		if path := strings.ReplaceAll(page[1], "{{ $labels.task }}", "fails"); get(at+path) == "" {
			t.Errorf("an alert links to %s, which is no page", path)
		}
	}
}

func TestMonitoring_RulesPassTheirTests(t *testing.T) {
	t.Parallel()
	program := testtools.Promtool(t)
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "rules.test.yaml"}, {"check", "config", "--syntax-only", "prometheus.yml"},
	} {
		promtool := exec.CommandContext(t.Context(), program, args...)
		promtool.Dir = example(t, "monitoring/prometheus")
		if out, err := promtool.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

func TestMonitoring_EachAlertHasATest(t *testing.T) {
	t.Parallel()
	// Each fires in a test, and in another one it does not.
	tests := read(t, example(t, "monitoring/prometheus/rules.test.yaml"))
	var alerts []string
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, example(t, "monitoring/prometheus/rules.yaml")), -1) {
		alerts = append(alerts, m[1])
		const as = `alertname: %s(?: #.*)?\n +exp_alerts:`
		if !regexp.MustCompile(fmt.Sprintf(as+"\n", m[1])).MatchString(tests) || !regexp.MustCompile(fmt.Sprintf(as+` \[\]`, m[1])).MatchString(tests) {
			t.Errorf("rules.test.yaml does not show when %s fires, or when it does not", m[1])
		}
	}
	documented := read(t, filepath.Join(testtools.Root(t), "docs", "reference", "metrics.md"))
	for _, alert := range alerts {
		if !strings.Contains(documented, "`"+alert+"`") {
			t.Errorf("docs/reference/metrics.md does not have %s", alert)
		}
	}
	for _, name := range regexp.MustCompile(`Terrapulse[A-Z]\w+`).FindAllString(read(t, example(t, "monitoring/alertmanager.yml")), -1) {
		if !slices.Contains(alerts, name) {
			t.Errorf("alertmanager.yml names the alert %s, which does not exist", name)
		}
	}
}

func TestMonitoring_AlertmanagerAcceptsItsSettings(t *testing.T) {
	testtools.OnlyInAll(t)
	check := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./alertmanager", example(t, "monitoring/alertmanager.yml"))
	check.Dir = filepath.Join(testtools.Root(t), "tools", "examples")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A message names each alert of its group, with its link. An incident of PagerDuty has the first one that fires.
func TestMonitoring_AMessageOfTwoAlertsHasASummaryAndALink(t *testing.T) {
	t.Parallel()
	testtools.Promtool(t) // which comes with what the messages are made of
	const ended = "2020-01-01T12:00:00Z"
	alert := func(task, end string) map[string]any {
		made := map[string]any{
			"labels":      map[string]string{"alertname": "TerrapulseTaskFails", "namespace": "netops", "job": "terrapulse", "severity": "critical", "task": task},
			"annotations": map[string]string{"summary": task + " fails", "link": "https://network.example.com/ui/tasks/" + task},
			"startsAt":    "2020-01-01T11:00:00Z",
		}
		if end != "" {
			made["endsAt"] = end
		}
		return made
	}
	groups, err := json.Marshal([][]map[string]any{{alert("web", "")}, {alert("web", ""), alert("db", "")}, {alert("web", ended), alert("db", "")}, {alert("web", ended)}})
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./messages", example(t, "monitoring/alertmanager.yml"))
	program.Dir = filepath.Join(testtools.Root(t), "tools", "examples")
	program.Stdin = bytes.NewReader(groups)
	program.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	var errs bytes.Buffer
	program.Stderr = &errs
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var sent []map[string]string
	if err := json.Unmarshal(out, &sent); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const web, db = "https://network.example.com/ui/tasks/web", "https://network.example.com/ui/tasks/db"
	message := func(title, text, description, link string) map[string]string {
		return map[string]string{
			"network-team.slack_configs[0].title": title, "network-team.slack_configs[0].text": text,
			"on-call.pagerduty_configs[0].description": description, "on-call.pagerduty_configs[0].client_url": link,
		}
	}
	if diff := cmp.Diff([]map[string]string{
		message("firing: TerrapulseTaskFails", "web fails <"+web+"|open>\n", "web fails", web),
		message("firing: TerrapulseTaskFails", "web fails <"+web+"|open>\ndb fails <"+db+"|open>\n", "web fails (1 of 2 alerts)", web),
		message("firing: TerrapulseTaskFails", "web fails <"+web+"|open>\ndb fails <"+db+"|open>\n", "db fails", db),
		message("resolved: TerrapulseTaskFails", "web fails <"+web+"|open>\n", "web fails", web),
	}, sent); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// get returns the body of a page, or "" if there is none.
func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == http.StatusOK {
		return string(body)
	}
	return ""
}
