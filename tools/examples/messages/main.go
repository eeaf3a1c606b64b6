// Command messages writes what the receivers of a configuration of Alertmanager would send, with Alertmanager's own
// templates. It is not a part of ../alertmanager, because the parser there brings the clients of all services.
//
//	go run -C tools/examples ./messages FILE <groups.json
//
// Standard input is a list of groups, each a list of alerts. For each group, it prints an object: each template by its
// path in the file, such as "on-call.pagerduty_configs[0].description", and its text.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("name one file, got %q", args)
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var settings struct {
		Route struct {
			GroupBy []model.LabelName `json:"group_by"`
		}
		Receivers []map[string]any
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return fmt.Errorf("parse %s: %w", args[0], err)
	}
	var groups [][]*alert.Alert
	if err := json.NewDecoder(in).Decode(&groups); err != nil {
		return fmt.Errorf("parse the groups of alerts: %w", err)
	}
	templates, err := template.FromGlobs(nil)
	if err != nil {
		return err
	}
	templates.ExternalURL = &url.URL{Scheme: "http", Host: "alertmanager.example.com"}
	messages := []map[string]string{}
	for _, alerts := range groups {
		common := model.LabelSet{}
		for _, name := range settings.Route.GroupBy {
			common[name] = alerts[0].Labels[name]
		}
		sent := map[string]string{}
		for _, receiver := range settings.Receivers {
			name, _ := receiver["name"].(string)
			data := templates.Data(name, common, model.LabelSet{}, "", alerts...)
			if err := render(templates, data, name, receiver, sent); err != nil {
				return err
			}
		}
		messages = append(messages, sent)
	}
	return json.NewEncoder(out).Encode(messages)
}

// render adds the text of each template below a value.
func render(templates *template.Template, data *template.Data, at string, value any, sent map[string]string) error {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if err := render(templates, data, at+"."+key, child, sent); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range value {
			if err := render(templates, data, fmt.Sprintf("%s[%d]", at, i), child, sent); err != nil {
				return err
			}
		}
	case string:
		if !strings.Contains(value, "{{") {
			return nil
		}
		text, err := templates.ExecuteTextString(value, data)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		sent[at] = text
	}
	return nil
}
