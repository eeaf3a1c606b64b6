package config

import (
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

// Templates in the strings of a terraform_provider block, and in the variables of a
// task, are evaluated for each run; those in api.token, api.read_token and the driver block when the
// program starts; those of notify blocks when an event is delivered.
var (
	// ctsTemplate is a template for Consul-Terraform-Sync, too.
	ctsTemplate = regexp.MustCompile(`\{\{\s*(env|key|with secret)\s+\\?".+\\?"\s*\}\}`)
	// ownTemplate calls a function that Consul-Terraform-Sync does not have.
	ownTemplate = regexp.MustCompile(`\{\{-?[^{}]*\b(secretsmanager|ssm)\s+\\?["` + "`" + `]`)

	templateAction  = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)
	templateLiteral = regexp.MustCompile(`(?s)\\?"(?:[^"\\]|\\.)*"|` + "`[^`]*`")
	// templateCall is a call of a function that looks something up, in an action
	// whose literals have been emptied: with an argument, at the end of a
	// pipeline, or in a range.
	templateCall = regexp.MustCompile(`(?:^|[\s(|=])(?:` +
		`(?:env|envOrDefault|mustEnv|key|keyExists|keyExistsGet|keyOrDefault|ls|safeLs|tree|safeTree|node|service|secret|secrets|secretsmanager|ssm)\s+["$.(]` +
		`|range\s+(?:\$\w+\s*(?:,\s*\$\w+\s*)?:=\s*)?(?:nodes|services|datacenters)\b` +
		`)|\|\s*(?:env|key|secret|secretsmanager|ssm)\b`)

	envCall   = regexp.MustCompile(`\b(?:env|envOrDefault|mustEnv)\b`)
	vaultCall = regexp.MustCompile(`(?:^|[\s(|=])secrets?\s+["$.(]|\|\s*secret\b`)
)

// IsTemplate reports whether a string is a template: whether it looks something
// up, with {{ env "X" }}, {{ key "path" }}, {{ with secret "path" }} or the like. Any
// other string is taken as it is written, even if it has double braces.
func IsTemplate(text string) bool {
	if !strings.Contains(text, "{{") {
		return false
	}
	return ctsTemplate.MatchString(text) || calls(text, templateCall)
}

// UsesVault reports whether a template reads from Vault.
func UsesVault(text string) bool { return calls(text, vaultCall) }

// EnvNames returns the names of the environment variables that the templates of the configuration
// may read: of providers, of variables of all tasks, of tokens and of notify blocks. Other texts in
// these templates may be among them.
func (c *Config) EnvNames() []string {
	var names []string
	add := func(text string) {
		if !strings.Contains(text, "{{") || !calls(text, envCall) {
			return
		}
		for _, literal := range templateLiteral.FindAllString(text, -1) {
			names = append(names, strings.Trim(literal, "\\\"`"))
		}
	}
	for i := range c.Providers {
		c.Providers[i].Body.Map(func(_, text string) string { add(text); return text })
		for _, text := range c.Providers[i].Env {
			add(text)
		}
	}
	for i := range c.Tasks {
		for _, text := range c.Tasks[i].VariableTemplates {
			add(text)
		}
	}
	add(c.API.Token.Text)
	add(c.API.ReadToken.Text)
	if c.API.OIDC != nil {
		add(c.API.OIDC.Secret.Text)
	}
	for _, value := range c.Driver().Texts() {
		add(value.Text)
	}
	for _, s := range c.Notify {
		for _, value := range s.Values() {
			add(value.Text)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// calls reports whether an action of a template has a call, outside of literals.
func calls(text string, call *regexp.Regexp) bool {
	for _, action := range templateAction.FindAllStringSubmatch(text, -1) {
		inside := templateLiteral.ReplaceAllString(strings.Trim(action[1], "-"), `""`)
		if call.MatchString(inside) {
			return true
		}
	}
	return false
}

// template checks a template without evaluating it.
func (l *loader) template(n *node, path string, vault bool) {
	at := block.Origin{Pos: n.pos, Path: path}
	if !vault && UsesVault(n.text) {
		l.Fail(at, "detected dynamic configuration using Vault: missing Vault configuration", "add a vault block with an address")
	}
	t := parse.New(path)
	t.Mode = parse.SkipFuncCheck
	if _, err := t.Parse(n.text, "", "", map[string]*parse.Tree{}); err != nil {
		// The parser's error may quote text around the template, which may be secret.
		l.Fail(at, "the template cannot be parsed", `the syntax is that of Go's text/template, such as {{ env "NAME" }}; every "with", "if" and "range" needs an {{ end }}`)
	}
}

// variablePath is the path of a variable of a task in a file. Tasks that are created
// through the API have no templates: they could pass the secrets of this process to
// any module.
var variablePath = regexp.MustCompile(`(?i)^task\[\d+\]\.variables\.`)

// keptVariablePath is the same in a definition that was kept of such a task.
var keptVariablePath = regexp.MustCompile(`^task\.variables\.`)

// verifyHeader is the path of a header of a verification in a file. Its values may use variables of the
// environment; tasks that are created through the API have none, as above.
var verifyHeader = regexp.MustCompile(`(?i)^(task\[\d+\]\.)?verify\..+\.http\.headers\.`)

// variableTemplate reports whether a variable of a task is a template, and not
// valid Terraform source.
func (l *loader) variableTemplate(path, text string) bool {
	if !(variablePath.MatchString(path) || l.kept && keptVariablePath.MatchString(path)) || !IsTemplate(text) {
		return false
	}
	_, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	return diags.HasErrors()
}

// noTemplates reports template syntax below n where nothing evaluates it. Text that
// Consul-Terraform-Sync accepts there may be meant for another program.
func (l *loader) noTemplates(n *node, path string) {
	for path, e := range n.below(path, "") {
		top, _, _ := strings.Cut(path, ".")
		text := e.value.text
		if e.value.kind != kindString || strings.EqualFold(top, "terraform_provider") || tokenTemplate(strings.ToLower(path)) || notify.MayBeTemplate(path) || verifyHeader.MatchString(path) || l.variableTemplate(path, text) {
			continue
		}
		hint := "write the value itself, or set it by an environment variable"
		if variablePath.MatchString(path) {
			hint = "in variables, a template stands alone, without the quotes of Terraform source around it"
		}
		if ctsTemplate.MatchString(text) || ownTemplate.MatchString(text) {
			l.Fail(block.Origin{Pos: e.value.pos, Path: path},
				"dynamic configuration using template syntax is only supported for terraform_provider blocks and variables of task files",
				hint)
		}
	}
}
