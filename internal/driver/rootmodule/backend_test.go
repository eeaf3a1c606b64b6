package rootmodule

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func backendBlock(attributes values) map[string][]config.Body {
	return map[string][]config.Body{"workspaces": {{Attributes: attributes}}}
}

func TestBackend_OfTask(t *testing.T) {
	for _, c := range []struct {
		name    string
		backend config.Backend
		want    string // in main.tf
	}{
		{"none", config.Backend{}, ""},
		{"remote with a prefix", config.Backend{Type: "remote", Body: config.Body{Attributes: values{"organization": str("acme")}, Blocks: backendBlock(values{"prefix": str("net-")})}},
			"backend \"remote\" {\norganization = \"acme\"\nworkspaces {\nprefix = \"net-\"\n}\n}\n"},
		{"remote with a name", config.Backend{Type: "remote", Body: config.Body{Blocks: backendBlock(values{"name": str("net-{task}")})}},
			"backend \"remote\" {\nworkspaces {\nname = \"net-web\"\n}\n}\n"},
		{"cloud", config.Backend{Type: "cloud", Body: config.Body{Attributes: values{"organization": str("acme"), "hostname": str("tfe.example")},
			Blocks: backendBlock(values{"name": str("{task}"), "project": str("prod")})}},
			"cloud {\nhostname = \"tfe.example\"\norganization = \"acme\"\nworkspaces {\nname = \"web\"\nproject = \"prod\"\n}\n}\n"},
		{"cloud as YAML has it", config.Backend{Type: "cloud", Body: config.Body{Attributes: values{"workspaces": cty.ObjectVal(values{"name": str("{task}-state")})}}},
			"cloud {\nworkspaces {\nname = \"web-state\"\n}\n}\n"},
		{"http", config.Backend{Type: "http", Body: config.Body{Attributes: values{"address": str("https://x/{task}"), "lock_address": str("https://x/{task}/lock"), "retry_max": num(3)}}},
			"backend \"http\" {\naddress = \"https://x/web\"\nlock_address = \"https://x/web/lock\"\nretry_max = 3\n}\n"},
		{"what is not ours to read", config.Backend{Type: "s3", Body: config.Body{Attributes: values{"key": str("{task}")}}},
			"backend \"s3\" {\nkey = \"{task}\"\n}\n"},
	} {
		m := Module{Config: &config.Config{Tasks: []config.Task{{Name: "web"}, {Name: "db"}}, Terraform: config.Terraform{Backend: c.backend}}, Task: &config.Task{Name: "web"}}
		var b bytes.Buffer
		if err := m.writeBackend(&b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestBackend_CloudBlockNamesItsWorkspace(t *testing.T) {
	web := config.Task{Name: "web"}
	for _, body := range []config.Body{{}, {Blocks: backendBlock(values{"tags": cty.TupleVal([]cty.Value{str("net")})})}} {
		cfg := &config.Config{Tasks: []config.Task{web}, Terraform: config.Terraform{Backend: config.Backend{Type: "cloud", Body: body}}}
		if _, err := Backend(cfg, &web); err == nil || !strings.Contains(err.Error(), `workspaces { name = "{task}" }`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestBackend_TasksDoNotShareAState(t *testing.T) {
	web, db := config.Task{Name: "web"}, config.Task{Name: "db"}
	for _, c := range []struct {
		name    string
		backend config.Backend
		want    string // in the error, where there are two tasks
	}{
		{"http", config.Backend{Type: "http", Body: config.Body{Attributes: values{"address": str("https://x/state")}}}, "into its address"},
		{"http by its environment", config.Backend{Type: "http"}, "into its address"},
		{"remote", config.Backend{Type: "remote", Body: config.Body{Blocks: backendBlock(values{"name": str("net")})}}, "into its workspaces.name"},
		{"cloud", config.Backend{Type: "cloud", Body: config.Body{Attributes: values{"workspaces": cty.ObjectVal(values{"name": str("net")})}}}, "into its workspaces.name"},
	} {
		cfg := &config.Config{Tasks: []config.Task{web}, Terraform: config.Terraform{Backend: c.backend}}
		if _, err := Backend(cfg, &web); err != nil {
			t.Errorf("%s, with one task: %v", c.name, err)
		}
		cfg.Tasks = append(cfg.Tasks, db)
		if _, err := Backend(cfg, &web); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "2 tasks would share one state") {
			t.Errorf("%s, with two tasks: %v", c.name, err)
		}
		if _, err := (Module{Config: cfg, Task: &web}).Files(); err == nil {
			t.Errorf("%s: the root module of one of two tasks was rendered", c.name)
		}
	}
}
