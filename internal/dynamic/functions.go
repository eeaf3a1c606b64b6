package dynamic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"text/template"

	"github.com/terrapulse/terrapulse/internal/vault"
)

// functions are the functions of templates: first those that look something up, with the arguments
// of Consul-Template's functions. config.IsTemplate has the same names.
func (l *lookups) functions(ctx context.Context, at place) template.FuncMap {
	c := inConsul{l, ctx}
	v := inVault{l, ctx}
	a := inAWS{l, ctx}
	functions := template.FuncMap{
		"env":          func(name string) string { return l.env(ctx, at, name) },
		"mustEnv":      l.mustEnv,
		"envOrDefault": l.envOrDefault,

		"key":          c.key,
		"keyExists":    c.keyExists,
		"keyOrDefault": c.keyOrDefault,
		"ls":           c.ls,
		"safeLs":       c.safeLs,
		"tree":         c.tree,
		"safeTree":     c.safeTree,
		"node":         c.node,
		"nodes":        c.nodes,
		"service":      c.service,
		"services":     c.services,
		"datacenters":  c.datacenters,

		"secret":  v.secret,
		"secrets": v.secrets,

		"secretsmanager": a.secret,
		"ssm":            a.parameter,
	}
	maps.Copy(functions, helpers)
	return functions
}

// env returns the value of an environment variable. A variable that is not set is "", as in
// Consul-Terraform-Sync; because that is mostly a mistake, it is logged.
func (l *lookups) env(ctx context.Context, at place, name string) string {
	text, ok := l.lookupEnv(name)
	if !ok {
		l.log().LogAttrs(ctx, slog.LevelWarn, "an environment variable of a template is not set: its value is empty",
			slog.String("task", l.task), slog.String("provider", at.provider), slog.String("argument", at.argument), slog.String("variable", name))
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

// inAWS are the template functions that read from AWS.
type inAWS struct {
	*lookups
	ctx context.Context
}

// secret is {{ secretsmanager "arn" }}, or with a key of a secret in JSON
// {{ secretsmanager "arn" "key" }}.
func (a inAWS) secret(id string, key ...string) (string, error) {
	if len(key) > 1 {
		return "", &argumentError{"secretsmanager takes the ARN or name of a secret and, for a secret in JSON, one key of it"}
	}
	words := append([]string{id}, key...)
	return find(a.ctx, a.lookups, named("secretsmanager", words...), named("secretsmanager", words...), func(ctx context.Context) (string, error) {
		aws, err := a.open(ctx)
		if err != nil {
			return "", err
		}
		return aws.Secret(ctx, id, strings.Join(key, ""))
	})
}

// parameter is {{ ssm "name" }}.
func (a inAWS) parameter(name string) (string, error) {
	return find(a.ctx, a.lookups, named("ssm", name), named("ssm", name), func(ctx context.Context) (string, error) {
		aws, err := a.open(ctx)
		if err != nil {
			return "", err
		}
		return aws.Parameter(ctx, name)
	})
}

func (a inAWS) open(ctx context.Context) (AWS, error) {
	if a.AWS == nil {
		return nil, errors.New("this program does not read from AWS")
	}
	a.awsOnce.Do(func() { a.aws, a.awsErr = a.AWS(ctx) })
	return a.aws, a.awsErr
}

// inVault are the template functions that read from Vault.
type inVault struct {
	*lookups
	ctx context.Context
}

// secret is {{ with secret "path" }}; with more arguments of the form NAME=VALUE, it writes them to
// Vault and returns the answer.
func (v inVault) secret(path string, data ...string) (*vault.Secret, error) {
	fields := map[string]any{}
	for _, d := range data {
		name, value, ok := strings.Cut(d, "=")
		if !ok {
			return nil, &argumentError{fmt.Sprintf("secret %q: what follows the path has the form NAME=VALUE", path)}
		}
		fields[name] = value
	}
	return find(v.ctx, v.lookups, named("secret", path), named("secret", append([]string{path}, data...)...), func(ctx context.Context) (*vault.Secret, error) {
		client, err := v.vaultClient(v.cfg.Vault)
		if err != nil {
			return nil, err
		}
		if len(fields) > 0 {
			return client.Write(ctx, path, fields)
		}
		return client.Read(ctx, path)
	})
}

// secrets is {{ range secrets "path" }}: names.
func (v inVault) secrets(path string) ([]string, error) {
	return find(v.ctx, v.lookups, named("secrets", path), named("secrets", path), func(ctx context.Context) ([]string, error) {
		client, err := v.vaultClient(v.cfg.Vault)
		if err != nil {
			return nil, err
		}
		return client.List(ctx, path)
	})
}

// named returns a call in the syntax of templates.
func named(function string, words ...string) string {
	quoted := []string{function}
	for _, w := range words {
		quoted = append(quoted, fmt.Sprintf("%q", w))
	}
	return strings.Join(quoted, " ")
}
