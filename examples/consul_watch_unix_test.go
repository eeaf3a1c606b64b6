//go:build unix

package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// A Consul agent sends an event for each change. The rule accepts this event, the policy permits it, and what the
// rule sends to the function is a request for a tick. A script stands in for the AWS command line.
func TestConsulWatch_EachChangeStartsATick(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	aws, sent := filepath.Join(dir, "aws"), filepath.Join(dir, "sent")
	write(t, aws, "#!/bin/sh\nprintf '%s\\n' \"$@\" >>"+sent+".args\ncat >>"+sent+"\n") // a watch gives what it has read
	if err := os.Chmod(aws, 0o700); err != nil {
		t.Fatal(err)
	}
	consul := consultest.Start(t, consultest.WithHCL(strings.ReplaceAll(read(t, example(t, "consul-watch/watch.hcl")), `"aws"`, `"`+aws+`"`)))
	web := api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080, Check: &api.AgentServiceCheck{CheckID: "web-1", TTL: "1h", Status: "passing"}}
	for _, change := range []struct {
		what, shows string
		do          func() error
	}{
		{"a new service", `"web-1"`, func() error { return consul.Client().Agent().ServiceRegister(&web) }},
		{"an instance", `"web-2"`, func() error {
			return consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-2", Address: "10.0.0.2", Port: 8080})
		}},
		{"its health", `"critical"`, func() error { return consul.Client().Agent().UpdateTTL("web-1", "", "critical") }},
		{"a key", `"network/mtu"`, func() error {
			_, err := consul.Client().KV().Put(&api.KVPair{Key: "network/mtu", Value: []byte("1500")}, nil)
			return err
		}},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the watch sends "+change.what, func() bool {
			content, _ := os.ReadFile(sent)
			return strings.Contains(string(content), change.shows)
		})
	}

	var hint struct {
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
	if err := yaml.Unmarshal([]byte(read(t, example(t, "consul-watch/hint.yaml"))), &hint); err != nil {
		t.Fatal(err)
	}
	rule, allowed := hint.Resources.Hint.Properties, hint.Resources.Send.Properties.PolicyDocument.Statement
	if len(rule.Targets) != 1 || len(allowed) != 1 || allowed[0].Action != "events:PutEvents" {
		t.Fatalf("the template has another rule or policy: %+v, %+v", rule, allowed)
	}
	args := strings.Split(strings.TrimSpace(read(t, sent+".args")), "\n")
	const command, entries = "events put-events --region eu-west-1 --entries", 5
	for call := range slices.Chunk(args, entries+1) {
		var events []struct{ Source, DetailType, Detail string }
		if got := strings.Join(call[:min(entries, len(call))], " "); got != command || len(call) != entries+1 {
			t.Fatalf("the watch runs aws %s", call)
		}
		if err := json.Unmarshal([]byte(call[entries]), &events); err != nil || len(events) != 1 || !json.Valid([]byte(events[0].Detail)) {
			t.Fatalf("%s: %v", call[entries], err)
		}
		if e := events[0]; !slices.Contains(rule.EventPattern.Source, e.Source) || !slices.Contains(rule.EventPattern.DetailType, e.DetailType) ||
			allowed[0].Condition["ForAllValues:StringEquals"]["events:source"] != e.Source {
			t.Errorf("%+v is not what rule and policy accept: %+v, %+v", e, rule.EventPattern, allowed)
		}
	}
	if req, err := invoke.Parse([]byte(rule.Targets[0].Input)); err != nil || req.Mode != invoke.Reconcile || !req.Ended || req.Window {
		t.Errorf("the function gets %s: %v", rule.Targets[0].Input, err)
	}
}
