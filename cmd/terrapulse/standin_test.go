package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// standIn answers as the API of Consul-Terraform-Sync does, to the letter.
type standIn struct {
	*httptest.Server
	answers map[string]string // "METHOD target": status, a space, body
	note    string
	hang    string // the request that is never answered
	asked   []string
	bodies  []string
}

const planText = `Terraform will perform the following actions:

  # module.web.local_file.out will be created
  + resource "local_file" "out" {
      + filename = "/tmp/a/rather/long/path/that/is/wider/than/what/prose/is/wrapped/at/web.txt"
    }

Plan: 1 to add, 0 to change, 0 to destroy.`

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	plan, err := json.Marshal(planText)
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{answers: map[string]string{
		"POST /v1/tasks?run=inspect":      fmt.Sprintf(`200 {"request_id":"7f0c2f8e-9a38-4a0a-8a6b-b8a0a4f7d3a1","task":{"name":"newt"},"run":{"changes_present":true,"plan":%s}}`, plan),
		"POST /v1/tasks?run=now":          `201 {"request_id":"e3b6f0a2-0a77-4f1c-a6d0-7f1bb8c1f5a2","task":{"name":"newt"}}`,
		"PATCH /v1/tasks/dis?run=inspect": fmt.Sprintf(`200 {"inspect":{"changes_present":true,"plan":%s}}`, plan),
		"PATCH /v1/tasks/dis?run=now":     `200 {}`,
		"PATCH /v1/tasks/dis":             `200 {}`,
		"DELETE /v1/tasks/dis":            `202 {"request_id":"5d0f0df5-83ab-4be4-9d1b-0f5e6ad3d4f3"}`,
	}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	asked := r.Method + " " + r.RequestURI
	s.asked, s.bodies = append(s.asked, asked), append(s.bodies, string(body))
	if asked == s.hang {
		<-r.Context().Done()
		return
	}
	answer, ok := s.answers[asked]
	if !ok {
		answer = `404 {"error":{"message":"a task with name 'nope' does not exist or has not been initialized yet"},"request_id":"c0ffee00-0000-4000-8000-000000000000"}`
	}
	if s.note != "" && r.Method == http.MethodDelete {
		w.Header().Set("Terrapulse-Note", s.note)
	}
	var status int
	code, text, _ := strings.Cut(answer, " ")
	fmt.Sscan(code, &status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// task runs a command by a name of the program, with somebody who types the
// answer.
func (s *standIn) task(t *testing.T, program, answer string, args ...string) result {
	t.Helper()
	t.Setenv("CTS_ADDRESS", s.URL)
	var stdout, stderr testtools.Output
	a := &app{ctx: t.Context(), program: program, stdin: strings.NewReader(answer), stdout: &stdout, stderr: &stderr}
	code := a.run(append([]string{"task"}, args...))
	return result{code, stdout.String(), stderr.String()}
}

func taskFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const newTask = `
task {
  name   = "newt"
  module = "./mod"
  condition "services" {
    names = ["web"]
  }
}
`

// bare runs a command that takes no store.
func (s *site) bare(command string, args ...string) result {
	s.t.Helper()
	var stdout, stderr testtools.Output
	code := run(s.t.Context(), append([]string{command}, args...), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}
