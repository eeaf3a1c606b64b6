package hcptest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

// client calls the API as simply as possible.
type client struct {
	t *testing.T
	*hcptest.Server
	token string
}

func newClient(t *testing.T, options ...hcptest.Option) *client {
	s := hcptest.New(t, options...)
	return &client{t, s, s.Token}
}

// call returns the status and the answer of a request.
func (c *client) call(method, path string, body any) (int, map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	if body == nil {
		text = nil
	}
	req, err := http.NewRequest(method, c.URL+"/api/v2/"+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, map[string]any{"error": err.Error()}
	}
	defer resp.Body.Close()
	answer := map[string]any{}
	if text, _ := io.ReadAll(resp.Body); len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			c.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
		}
	}
	return resp.StatusCode, answer
}

// must calls and expects a status.
func (c *client) must(status int, method, path string, body any) map[string]any {
	c.t.Helper()
	got, answer := c.call(method, path, body)
	if got != status {
		c.t.Fatalf("%s %s: status %d, want %d: %v", method, path, got, status, answer)
	}
	return answer
}

type object = map[string]any

func data(kind string, attributes object, related ...string) object {
	relationships := object{}
	for i := 0; i+2 < len(related); i += 3 {
		relationships[related[i]] = object{"data": object{"type": related[i+1], "id": related[i+2]}}
	}
	return object{"data": object{"type": kind, "attributes": attributes, "relationships": relationships}}
}

func at(doc any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		if list, ok := doc.([]any); ok {
			if len(list) == 0 {
				return nil
			}
			doc = list[0]
		}
		doc, _ = doc.(object)[name]
	}
	return doc
}

func id(doc object) string { return fmt.Sprint(at(doc, "data.id")) }

func (c *client) workspace(name string, attributes object) string {
	c.t.Helper()
	all := object{"name": name}
	for k, v := range attributes {
		all[k] = v
	}
	return id(c.must(201, "POST", "organizations/acme/workspaces", data("workspaces", all)))
}

// upload makes a configuration version of files.
func (c *client) upload(workspace string, attributes object, files map[string]string) string {
	c.t.Helper()
	if attributes == nil {
		attributes = object{"auto-queue-runs": false}
	}
	doc := c.must(201, "POST", "workspaces/"+workspace+"/configuration-versions", data("configuration-versions", attributes))
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, text := range files {
		archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		io.WriteString(archive, text)
	}
	archive.Close()
	zipped.Close()
	req, err := http.NewRequest("PUT", at(doc, "data.attributes.upload-url").(string), &packed)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		c.t.Fatalf("upload: status %d", resp.StatusCode)
	}
	return id(doc)
}

// run creates a run and returns its ID.
func (c *client) run(workspace, version string, attributes object) string {
	c.t.Helper()
	return id(c.must(201, "POST", "runs", data("runs", attributes, "workspace", "workspaces", workspace, "configuration-version", "configuration-versions", version)))
}

func (c *client) get(url string) string {
	c.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// files are a module that keeps a value.
func files(value string) map[string]string {
	return map[string]string{
		"main.tf": `variable "value" {}
resource "terraform_data" "kept" {
  input = var.value
}
output "kept" {
  value = terraform_data.kept.output
}
`,
		"terrapulse.auto.tfvars": fmt.Sprintf("value = %q\n", value),
	}
}

func TestRun_PlansAndAppliesWithTerraform(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ws := c.workspace("net-web", object{"structured-run-output-enabled": false})
	cv := c.upload(ws, object{"auto-queue-runs": false, "provisional": true}, files("one"))
	run := c.run(ws, cv, object{"message": "from a test", "auto-apply": false})
	if got := c.Await(run, "planned"); !got.Confirmable || got.Upload["terrapulse.auto.tfvars"] != "value = \"one\"\n" {
		t.Errorf("planned: %+v", got)
	}
	doc := c.must(200, "GET", "runs/"+run+"?include=plan,apply,workspace", nil)
	if n := len(at(doc, "included").([]any)); n != 3 {
		t.Errorf("%d resources are included, want 3", n)
	}
	plan := c.must(200, "GET", "plans/"+at(doc, "data.relationships.plan.data.id").(string), nil)
	if n := at(plan, "data.attributes.resource-additions"); n != 1.0 {
		t.Errorf("the plan adds %v", n)
	}
	if log := c.get(at(plan, "data.attributes.log-read-url").(string)); !strings.HasPrefix(log, "\x02Terraform v") || !strings.HasSuffix(log, "\x03") || !strings.Contains(log, "1 to add") {
		t.Errorf("log of the plan: %q", log)
	}
	changes := c.must(200, "GET", "plans/"+id(plan)+"/json-output", nil)
	if action := at(changes, "resource_changes.change.actions"); fmt.Sprint(action) != "[create]" {
		t.Errorf("JSON of the plan: %v", action)
	}
	if got := c.Workspace("net-web"); got.LockedBy != run || got.Current != "" {
		t.Errorf("while it waits: %+v", got)
	}
	c.must(202, "POST", "runs/"+run+"/actions/apply", object{"comment": "all is well"})
	got := c.Await(run, "applied")
	if len(got.Comments) != 1 || got.Decider != "team" {
		t.Errorf("applied: %+v", got)
	}
	if got := c.Workspace("net-web"); got.LockedBy != "" || got.Current != cv || !strings.Contains(string(got.State), `"one"`) {
		t.Errorf("after it: %+v", got)
	}
	same := c.run(ws, c.upload(ws, nil, files("one")), nil)
	c.Await(same, "planned_and_finished")
	c.must(409, "POST", "workspaces/"+ws+"/actions/safe-delete", nil)
	gone := c.run(ws, cv, object{"is-destroy": true, "auto-apply": true})
	c.Await(gone, "applied")
	c.must(204, "POST", "workspaces/"+ws+"/actions/safe-delete", nil)
}
