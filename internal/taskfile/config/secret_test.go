package config

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/redact"
)

// noSecret are keys that look like keys of secrets.
var noSecret = regexp.MustCompile(`(^|\.)(\w*_(file|path|id)|key|tls_handshake_timeout)$`)

// mayBeSecret reports whether the value of a key may be a secret.
func mayBeSecret(path string, k key) bool {
	switch k.typ {
	case reflect.TypeFor[string](), reflect.TypeFor[block.String](), reflect.TypeFor[block.Strings](), reflect.TypeFor[block.Map]():
	default:
		return false
	}
	asked := redact.NamesSecret(k.name) || regexp.MustCompile(`^(command|headers|variables|task_env)$`).MatchString(k.name) || strings.Contains(k.tag.Get("doc"), "is a secret")
	return asked && !noSecret.MatchString(path) && k.tag.Get("path") == ""
}

func TestSecrets_EveryKeyThatMayHaveOneHasTheTag(t *testing.T) {
	tagged := map[string]bool{}
	check := func(path, _ string, k key, _ reflect.Type) {
		tag := k.tag.Get("secret")
		switch {
		case tag == "" && mayBeSecret(path, k):
			t.Errorf("the key %s may have a secret: it needs the tag secret, or a place in noSecret", path)
		case tag != "" && shown[tag] == nil:
			t.Errorf("the key %s has the tag secret:%q, which shown does not have", path, tag)
		case tag != "":
			tagged[path] = true
		}
	}
	everyKey(reflect.TypeFor[rawConfig](), "", "", check)
	everyKey(reflect.TypeFor[rawProvider](), "terraform_provider", "", check)
	everyKey(reflect.TypeFor[rawCloud](), "driver.terraform-cloud", "", check)
	for _, path := range []string{"consul.token", "api.access.oidc.client_secret", "terraform_provider.task_env", "driver.terraform-cloud.notification.token",
		"task.verify.http.headers", "task.verify.http.url", "task.verify.command", "task.check.command", "verify.command", "notify.command.command", "notify.webhook.url", "notify.webhook.headers"} {
		if !tagged[path] {
			t.Errorf("the key %s was not found", path)
		}
	}
}

// secretOf is a value for a key with a secret in it, as JSON has it.
func secretOf(k key) any {
	const secret = "hunter2"
	switch text := k.tag.Get("secret"); {
	case k.typ == reflect.TypeFor[block.Map]():
		return map[string]any{"name": secret}
	case k.typ == reflect.TypeFor[block.Strings]():
		return []any{"program", "-x", secret}
	case text == "query":
		return "https://example.com/health?key=" + secret
	}
	return secret
}

// filled is a block of a type with a secret in each key that may have one; nil if none may.
func filled(of reflect.Type) map[string]any {
	keys := map[string]any{}
	for _, k := range schemaOf(of).keys {
		switch {
		case k.tag.Get("secret") != "":
			keys[k.name] = secretOf(k)
		case k.field:
		case hasLabels(k.typ):
			if inside := filled(k.typ.Elem()); inside != nil {
				keys[k.name] = map[string]any{"label": inside}
			}
		case k.typ.Kind() == reflect.Struct:
			if inside := filled(k.typ); inside != nil {
				keys[k.name] = inside
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return keys
}

func TestPublic_HasNoSecretOfAnyKeyOfATask(t *testing.T) {
	task := filled(reflect.TypeFor[rawTask]())
	if before, _ := json.Marshal(task); strings.Count(string(before), "hunter2") < 5 {
		t.Fatalf("the task has %s", before)
	}
	keys, err := Public(task)
	after, _ := json.Marshal(keys)
	if err != nil || strings.Contains(string(after), "hunter2") {
		t.Errorf("%v, %s", err, after)
	}
	for _, want := range []string{`"url":"https://example.com/health?(sensitive value)"`, `"command":["program","(sensitive value)"]`, `"headers":{"name":"(sensitive value)"}`} {
		if !strings.Contains(string(after), want) {
			t.Errorf("people do not see %s in %s", want, after)
		}
	}
	kept := Task{rules: task}
	if keys, missing, err := kept.Kept(); err != nil || strings.Contains(strings.Join(missing, " "), "variables") || len(missing) != 4 {
		t.Errorf("%v, missing %v, of %v", err, missing, keys)
	}
}
