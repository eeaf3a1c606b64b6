package dynamic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"text/template"

	"github.com/terrapulse/terrapulse/internal/consul/vault"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// functions are the functions of templates: first those that look something up, with the arguments
// of Consul-Template's functions. config.IsTemplate has the same names.
func (l *lookups) functions(at values.Place) template.FuncMap {
	functions := template.FuncMap{
		"env":          func(name string) string { return l.env(at, name) },
		"mustEnv":      l.mustEnv,
		"envOrDefault": l.envOrDefault,

		"key":          l.key,
		"keyExists":    l.keyExists,
		"keyOrDefault": l.keyOrDefault,
		"ls":           l.keys("ls", ls),
		"safeLs":       l.keys("safeLs", ls),
		"tree":         l.keys("tree", tree),
		"safeTree":     l.keys("safeTree", tree),
		"node":         l.node,
		"nodes":        l.nodes,
		"service":      l.service,
		"services":     l.services,
		"datacenters":  l.datacenters,

		"secret":  l.secret,
		"secrets": l.secrets,

		"secretsmanager": l.awsSecret,
		"ssm":            l.parameter,
	}
	maps.Copy(functions, helpers)
	return functions
}

// env returns the value of an environment variable. A variable that is not set is "", as in
// Consul-Terraform-Sync; because that is mostly a mistake, it is logged.
func (l *lookups) env(at values.Place, name string) string {
	text, ok := l.lookupEnv(name)
	if !ok {
		cmp.Or(l.Log, slog.Default()).LogAttrs(l.ctx, slog.LevelWarn, "an environment variable of a template is not set: its value is empty",
			slog.String("task", l.task), slog.String("provider", at.Provider), slog.String("argument", at.Argument), slog.String("variable", name))
	}
	return text
}

func (l *lookups) mustEnv(name string) (string, error) {
	text, ok := l.lookupEnv(name)
	if !ok {
		return "", &lookupError{fmt.Sprintf("mustEnv %q", name), errors.New("the environment variable is not set where Terrapulse runs")}
	}
	return text, nil
}

func (l *lookups) envOrDefault(name, otherwise string) string {
	if text, ok := l.lookupEnv(name); ok && text != "" {
		return text
	}
	return otherwise
}

// awsSecret is {{ secretsmanager "arn" }}, or with a key of a secret in JSON
// {{ secretsmanager "arn" "key" }}.
func (l *lookups) awsSecret(id string, key ...string) (string, error) {
	if len(key) > 1 {
		return "", &argumentError{"secretsmanager takes the ARN or name of a secret and, for a secret in JSON, one key of it"}
	}
	words := append([]string{id}, key...)
	call := named("secretsmanager", words...)
	return with(l, call, call, l.openAWS, func(ctx context.Context, aws AWS) (string, error) {
		return aws.Secret(ctx, id, strings.Join(key, ""))
	})
}

// parameter is {{ ssm "name" }}.
func (l *lookups) parameter(name string) (string, error) {
	call := named("ssm", name)
	return with(l, call, call, l.openAWS, func(ctx context.Context, aws AWS) (string, error) { return aws.Parameter(ctx, name) })
}

func (l *lookups) openAWS(*config.Config) (AWS, error) {
	if l.AWS == nil {
		return nil, errors.New("this program does not read from AWS")
	}
	return find(l, "prepare the connection to AWS", "aws", l.AWS)
}

// secret is {{ with secret "path" }}; with more arguments of the form NAME=VALUE, it writes them to
// Vault and returns the answer.
func (l *lookups) secret(path string, data ...string) (*vault.Secret, error) {
	fields := map[string]any{}
	for _, d := range data {
		name, value, ok := strings.Cut(d, "=")
		if !ok {
			return nil, &argumentError{fmt.Sprintf("secret %q: what follows the path has the form NAME=VALUE", path)}
		}
		fields[name] = value
	}
	call := named("secret", append([]string{path}, data...)...)
	return with(l, named("secret", path), call, l.vaultClient, func(ctx context.Context, client *vault.Client) (*vault.Secret, error) {
		if len(fields) > 0 {
			return client.Write(ctx, path, fields)
		}
		return client.Read(ctx, path)
	})
}

// secrets is {{ range secrets "path" }}: names.
func (l *lookups) secrets(path string) ([]string, error) {
	call := named("secrets", path)
	return with(l, call, call, l.vaultClient, func(ctx context.Context, client *vault.Client) ([]string, error) { return client.List(ctx, path) })
}

// named returns a call in the syntax of templates.
func named(function string, words ...string) string {
	quoted := []string{function}
	for _, w := range words {
		quoted = append(quoted, fmt.Sprintf("%q", w))
	}
	return strings.Join(quoted, " ")
}
