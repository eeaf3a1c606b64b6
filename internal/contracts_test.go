package internal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/process/support"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// secretsOf has an example of each secret of each kind of sink, by its key. In that of a map,
// the entry is after the dot.
var secretsOf = map[string]map[string]string{
	"webhook": {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "headers.Authorization": "Bearer S3CRETS3CRET"},
	"slack":   {"url": "https://hooks.slack.com/services/T0/B0/S3CRET", "token": "xoxb-1234567890-S3CRETS3CRET"},
	"command": {},
}

// besideSecret are the keys that must be set with a secret.
var besideSecret = map[string]map[string]string{"slack.token": {"channel": "C0123456789"}}

func TestSinks_LiteralSecretIsInNoBundleAndNoSupportArchive(t *testing.T) {
	blocks := reflect.TypeFor[notify.Notify]()
	for i := range blocks.NumField() {
		kind := blocks.Field(i).Tag.Get("key")
		if kind == "" {
			continue
		}
		examples, ok := secretsOf[kind]
		if !ok {
			t.Errorf("there are no examples of secrets of notify %s", kind)
		}
		others := map[string]any{}
		for _, key := range reflect.VisibleFields(blocks.Field(i).Type) {
			name := key.Tag.Get("key")
			if key.Tag.Get("required") != "" && key.Type == reflect.TypeFor[block.String]() {
				others[name] = "https://example.com"
			}
			secret := redact.NamesSecret(name) || strings.Contains(key.Tag.Get("doc"), "is a secret")
			if secret && (!notify.IsSecret("notify[0]."+kind+"."+name) || examples[name] == "") {
				t.Errorf("the key %s of notify %s is a secret: the file of the sink does not say so, or there is no example", name, kind)
			}
		}
		for key, example := range examples {
			keys := map[string]any{}
			for name, value := range others {
				keys[name] = value
			}
			if name, entry, ok := strings.Cut(key, "."); ok {
				keys[name] = map[string]any{entry: example}
			} else {
				keys[key] = example
			}
			for name, value := range besideSecret[kind+"."+key] {
				keys[name] = value
			}
			path := "notify[0]." + kind + "." + key
			if found := (config.Errors{}); !errors.As(bundle.CheckSecrets(configured(t, kind, keys)), &found) ||
				!slices.ContainsFunc(found, func(d config.Diagnostic) bool { return d.Key == path }) {
				t.Errorf("a bundle may have a literal %s: %v", path, found)
			}
			said, _ := json.Marshal(map[string]string{key[strings.LastIndex(key, ".")+1:]: example})
			if clean := string(support.NewCleaner(nil).Clean(said)); strings.Contains(clean, example) || !strings.Contains(clean, "(removed)") {
				t.Errorf("a support archive has %s", clean)
			}
		}
	}
}

// configured is a configuration with one notify block.
func configured(t *testing.T, kind string, keys map[string]any) *config.Config {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(map[string]any{"notify": []any{map[string]any{kind: keys}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "f.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: "f.json"}}, Dir: dir, Hostname: "host"})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// onNoPage are fields of the status that no page shows, with the reason.
var onNoPage = map[string]string{
	"Overview.URL":       "it is the address of the pages",
	"Overview.Version":   "the page of health shows the answer of /v1/version, which says more",
	"Overview.Instances": "the page of health shows the answer of /v1/status/cluster, which says more",
	"Run.LogURL":         "the page of the run shows the output itself",
	"Run.PlanURL":        "the output of the run has the plan",
}

// statusTypes are the types of the status, with how code calls a value of each.
var statusTypes = map[reflect.Type]string{
	reflect.TypeFor[apispec.Overview]():     `\b(o|Overview)`,
	reflect.TypeFor[apispec.TaskOverview](): `\b(t|task|Task|a|b|Tasks\[i\])|[{ (]`, // a template calls it the dot
	reflect.TypeFor[apispec.Run]():          `\b(r|run|Run|live|last|LastRun)|[{ (]`,
}

func TestStatus_EveryFieldIsOnAPage(t *testing.T) {
	var pages strings.Builder
	for path, content := range product(t) {
		if strings.HasPrefix(path, "internal/people/web/") || strings.HasPrefix(path, "internal/people/selection/") { // which decides what they list
			pages.WriteString(content)
		}
	}
	seen := map[string]bool{}
	for shown, called := range statusTypes {
		for _, field := range reflect.VisibleFields(shown) {
			name := shown.Name() + "." + field.Name
			on := regexp.MustCompile(`(` + called + `)\.` + field.Name + `\b`).MatchString(pages.String())
			if seen[name] = true; on == (onNoPage[name] != "") {
				t.Errorf("%s is on a page: %t, and in onNoPage: %q", name, on, onNoPage[name])
			}
		}
	}
	for name := range onNoPage {
		if !seen[name] {
			t.Errorf("%s is no field of the status", name)
		}
	}
}

func TestPhases_HaveAColorInPages(t *testing.T) {
	described, err := openapi3.NewLoader().LoadFromData(apispec.Document)
	if err != nil {
		t.Fatal(err)
	}
	style := repository(t)["internal/people/web/static/style.css"]
	for _, p := range lifecycle.Phases {
		if p.Tone == "" || !regexp.MustCompile(`\.`+string(p.Tone)+`\b[^{}]*\{`).MatchString(style) {
			t.Errorf("phase %s has the tone %q, which has no color", p.Phase, p.Tone)
		}
		if !slices.Contains(described.Components.Schemas["Phase"].Value.Enum, any(string(p.Phase))) {
			t.Errorf("phase %s is not in openapi.yaml", p.Phase)
		}
	}
}

// engineWords are words of the code and of logs that mean nothing to people.
var engineWords = regexp.MustCompile(`(?i)\b(gates?|fenc(e|es|ing)|claim(s|ed)?|leases?)\b`)

func TestWords_PagesAndMessagesAreWithoutThoseOfTheEngine(t *testing.T) {
	markup := regexp.MustCompile(`(?s)\{\{.*?\}\}|<.*?>`)
	texts := map[string]string{}
	for path, content := range product(t) {
		if strings.HasSuffix(path, ".html") {
			texts[path] = markup.ReplaceAllString(content, " ")
		}
	}
	for _, kind := range outbox.Kinds() {
		texts["event "+string(kind)] = kind.About().Line
	}
	for _, p := range lifecycle.Phases {
		texts["phase "+string(p.Phase)] = p.Means
	}
	for _, r := range lifecycle.Reasons {
		texts["reason "+string(r.Code)] = r.Means + r.Until
	}
	for where, text := range texts {
		if word := engineWords.FindString(text); word != "" {
			t.Errorf("%s says %q to people", where, word)
		}
	}
}

// A tick has one name. A verification, a guard or a test may pass.
var otherTick = regexp.MustCompile(`(?i)\b(in|the|a|each|every|one|next|this|last|latest|first|scheduled)\s+pass\b`)

func TestWords_ATickHasOneName(t *testing.T) {
	for path, content := range repository(t) {
		switch filepath.Ext(path) {
		case ".md", ".html", ".yaml":
			if words := otherTick.FindString(content); words != "" {
				t.Errorf("%s says %q: say tick", path, words)
			}
		}
	}
}
