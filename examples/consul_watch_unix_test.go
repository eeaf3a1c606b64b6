//go:build unix

package examples_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// hint is hint.yaml, as far as EventBridge and IAM read it.
type hint struct {
	Resources struct {
		Hint struct {
			Properties struct {
				EventPattern struct {
					Source     []string
					DetailType []string `yaml:"detail-type"`
				} `yaml:"EventPattern"`
				Targets []struct {
					Input string `yaml:"Input"`
				} `yaml:"Targets"`
			} `yaml:"Properties"`
		} `yaml:"Hint"`
		Send struct {
			Properties struct {
				PolicyDocument struct {
					Statement []struct {
						Action    string                       `yaml:"Action"`
						Condition map[string]map[string]string `yaml:"Condition"`
					} `yaml:"Statement"`
				} `yaml:"PolicyDocument"`
			} `yaml:"Properties"`
		} `yaml:"Send"`
	} `yaml:"Resources"`
}

// A Consul agent runs the AWS command line after each change. What the rule makes of its events is a request for a
// tick, and the policy permits them. A server stands in for EventBridge.
func TestConsulWatch_EachChangeStartsATick(t *testing.T) {
	t.Parallel()
	var hint hint
	if err := yaml.Unmarshal([]byte(read(t, example(t, "consul-watch/hint.yaml"))), &hint); err != nil {
		t.Fatal(err)
	}
	rule, allowed := hint.Resources.Hint.Properties, hint.Resources.Send.Properties.PolicyDocument.Statement
	if len(rule.Targets) != 1 || len(allowed) != 1 {
		t.Fatalf("the template has another rule or policy: %+v, %+v", rule, allowed)
	}
	if req, err := invoke.Parse([]byte(rule.Targets[0].Input)); err != nil || req.Mode != invoke.Reconcile || !req.Ended || req.Window {
		t.Errorf("the function gets %s: %v", rule.Targets[0].Input, err)
	}
	var ticks atomic.Int32
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Entries []struct{ Source, DetailType, Detail, EventBusName string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" {
			t.Errorf("EventBridge gets %s %s: %v", r.URL, r.Header.Get("X-Amz-Target"), err)
		}
		for _, e := range in.Entries {
			if allowed[0].Action != "events:PutEvents" || allowed[0].Condition["ForAllValues:StringEquals"]["events:source"] != e.Source || e.EventBusName != "" {
				t.Errorf("the policy forbids %+v: %+v", e, allowed)
			}
			if slices.Contains(rule.EventPattern.Source, e.Source) && slices.Contains(rule.EventPattern.DetailType, e.DetailType) && json.Valid([]byte(e.Detail)) {
				ticks.Add(1)
			}
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}`)
	}))
	defer bus.Close()

	dir := t.TempDir()
	aws, seen, out := filepath.Join(dir, "aws"), filepath.Join(dir, "seen"), filepath.Join(dir, "out")
	write(t, aws, fmt.Sprintf("#!/bin/sh\ncat >>%s # what the watch has read\nexec env -i AWS_ENDPOINT_URL=%s AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b HOME=%s %s \"$@\" >>%s 2>&1\n", seen, bus.URL, dir, testtools.AWS(t), out))
	if err := os.Chmod(aws, 0o700); err != nil {
		t.Fatal(err)
	}
	consul := consultest.Start(t, consultest.WithHCL(strings.ReplaceAll(read(t, example(t, "consul-watch/watch.hcl")), `"aws"`, `"`+aws+`"`)))
	agent := consul.Client().Agent()
	changes := []struct {
		what, shows string
		do          func() error
	}{
		{"a new service", `"web-1"`, func() error {
			return agent.ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080, Check: &api.AgentServiceCheck{CheckID: "web-1", TTL: "1h", Status: "passing"}})
		}},
		{"an instance", `"web-2"`, func() error {
			return agent.ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-2", Address: "10.0.0.2", Port: 8080})
		}},
		{"its health", `"critical"`, func() error { return agent.UpdateTTL("web-1", "", "critical") }},
		{"a key", `"network/mtu"`, func() error {
			_, err := consul.Client().KV().Put(&api.KVPair{Key: "network/mtu", Value: []byte("1500")}, nil)
			return err
		}},
	}
	for _, change := range changes {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the watch sees "+change.what, func() bool {
			content, _ := os.ReadFile(seen)
			return strings.Contains(string(content), change.shows)
		})
	}
	eventually(t, "each change has started a tick", func() bool { return int(ticks.Load()) >= len(changes) })
	if text := read(t, out); strings.Contains(text, "rror") {
		t.Errorf("the AWS command line says %s", text)
	}
}
