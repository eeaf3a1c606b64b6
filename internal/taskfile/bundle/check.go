package bundle

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// CheckPlaces finds settings that work on one machine but not in AWS, as config.Errors:
// certificates and tokens on this machine's disk, state on a container's disk, commands of notify
// blocks and templates that the function cannot evaluate.
func CheckPlaces(cfg *config.Config) error {
	literals, err := config.Literals(cfg)
	if err != nil {
		return fmt.Errorf("check for paths of this machine: %w", err)
	}
	instead := insteadOfFiles(cfg)
	var found config.Errors
	for _, l := range literals {
		if hint := instead[l.Key]; hint != "" && l.Text != "" {
			found = append(found, config.Diagnostic{Position: l.Position, Key: l.Key, Problem: "a file of this machine is not there in AWS", Hint: hint})
		}
	}
	for _, d := range cfg.Driver().NotInAWS(literals) {
		d.File = cfg.Files()[0]
		found = append(found, d)
	}
	for _, s := range cfg.Notify {
		if why := s.NotInAWS(); why != "" {
			found = append(found, config.Diagnostic{Position: s.At.Pos, Key: s.At.Path, Problem: why,
				Hint: "use another type of notify block, or a rule of EventBridge, and keep this block in a file that is not pushed"})
		}
		for _, v := range s.Values() {
			if notify.CheckSimple(v.Text) != nil {
				found = append(found, config.Diagnostic{Position: s.At.Pos, Key: v.Key, Problem: "the functions in AWS cannot evaluate this template", Hint: notify.SimpleHint})
			}
		}
	}
	return slices.Concat(found, templatesForFunction(cfg), verificationsForFunction(cfg)).Err()
}

// verificationsForFunction finds verifications that are not possible in the function which polls: it has no
// programs, and no variables of a person in its environment.
func verificationsForFunction(cfg *config.Config) (found config.Errors) {
	if !cfg.Driver().Kind().Remote {
		return nil
	}
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		for _, v := range verify.Active(t.Verify) {
			d := config.Diagnostic{Position: t.Source, Key: "verify." + v.Name}
			if len(v.Command) > 0 {
				d.Problem = fmt.Sprintf("task %s: with the driver terraform-cloud, functions in AWS carry out the runs, and they run no programs to verify them", t.Name)
				d.Hint = "use an http block, remove the verify block, or set enabled = false"
				found = append(found, d)
			} else if v.HTTP != nil && len(v.HTTP.Variables()) > 0 {
				d.Problem = fmt.Sprintf("task %s: a header needs the environment variable %s, which the functions in AWS that carry out the runs do not have", t.Name, v.HTTP.Variables()[0])
				d.Hint = "verify with an address that needs no secret"
				found = append(found, d)
			}
		}
	}
	return found
}

// templatesForFunction finds templates that the function which polls cannot evaluate: it carries out
// runs itself that go on in another system.
func templatesForFunction(cfg *config.Config) (found config.Errors) {
	if !cfg.Driver().Kind().Remote {
		return nil
	}
	const problem = "the functions in AWS cannot evaluate this template"
	for _, value := range cfg.Driver().Texts() {
		if notify.CheckSimple(value.Text) != nil {
			found = append(found, config.Diagnostic{Position: config.Position{File: cfg.Files()[0]}, Key: value.Key, Problem: problem, Hint: notify.SimpleHint})
		}
	}
	seen := map[values.Place]bool{}
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		for _, site := range values.Templates(cfg, t) {
			at := site.Place
			if at.Provider == "" { // a variable of this task
				at.Argument = t.Name + "." + at.Argument
			}
			if !seen[at] && notify.CheckSimple(site.Text) != nil {
				found = append(found, config.Diagnostic{Position: t.Source, Problem: site.Wrap(errors.New(problem)).Error(), Hint: notify.SimpleHint})
			}
			seen[at] = true
		}
	}
	return found
}

// insteadOfFiles says for each key with a file what to use instead.
func insteadOfFiles(cfg *config.Config) map[string]string {
	variables := map[string]string{"ca_cert": "CACERT", "ca_path": "CAPATH", "cert": "CLIENT_CERT", "key": "CLIENT_KEY"}
	instead := map[string]string{}
	for name, variable := range variables {
		key := map[string]string{"ca_cert": "consul_ca_cert", "ca_path": "consul_ca_cert", "cert": "consul_client_cert", "key": "consul_client_key"}[name]
		instead["consul.tls."+name] = fmt.Sprintf("remove it (enabled: true may stay): in AWS, %s in the stack's secret gives it, on one machine CONSUL_%s",
			key, variable)
		instead["driver."+cfg.Driver().Kind().Name+".tls."+name] = "keep the key in a file that is not pushed: in AWS, the functions trust the usual CAs, and have no certificate of a client"
		if cfg.TLS.Enabled {
			instead["tls."+name] = "keep the block tls in a file that is not pushed: in AWS the HTTP API has the certificate of AWS"
		}
		if cfg.Vault.Enabled {
			there := "Vault is asked without a client's certificate"
			if strings.HasPrefix(name, "ca_") {
				there = "the image trusts what is in layers/trust"
			}
			instead["vault.tls."+name] = fmt.Sprintf("remove it: in AWS %s, on one machine VAULT_%s gives it", there, variable)
		}
	}
	if cfg.Vault.Enabled {
		instead["vault.vault_agent_token_file"] = "remove it: store Vault's token as vault_token in the stack's secret in AWS, and in VAULT_TOKEN on one machine"
	}
	return instead
}

// CheckSecrets finds literals that look like credentials, as config.Errors: by the name of their
// key, or by their form. Anyone who can read the bucket can read the bundle and its old versions.
func CheckSecrets(cfg *config.Config) error {
	literals, err := config.Literals(cfg)
	if err != nil {
		return fmt.Errorf("check for secrets: %w", err)
	}
	read := map[string]bool{}
	for i := range cfg.Tasks {
		for _, file := range cfg.Tasks[i].VariableFiles {
			read[path.Clean(filepath.ToSlash(file))] = true
		}
	}
	p, _, err := collect(cfg)
	if err != nil {
		return err
	}
	var found config.Errors
	for _, l := range literals {
		if problem := credential(l); problem != "" {
			found = append(found, config.Diagnostic{Position: l.Position, Key: l.Key, Problem: problem, Hint: better(cfg, l.Key)})
		}
	}
	// Modules are code, in which keys are arguments and values are references; there, only certain
	// findings count.
	for _, rel := range slices.Sorted(maps.Keys(p.files)) {
		content, name := p.files[rel].content, filepath.FromSlash(rel)
		if at := privateKey.FindIndex(content); at != nil {
			found = append(found, config.Diagnostic{Position: config.Position{File: name, Line: 1 + strings.Count(string(content[:at[0]]), "\n")},
				Problem: "a private key", Hint: better(cfg, "")})
		}
		if !read[rel] && (strings.HasSuffix(rel, ".tfvars") || strings.HasSuffix(rel, ".tfvars.json")) {
			for _, l := range config.VariableLiterals(name, content) {
				if problem := credential(l); problem != "" {
					found = append(found, config.Diagnostic{Position: l.Position, Key: l.Key, Problem: problem, Hint: better(cfg, "variables")})
				}
			}
		}
	}
	return found.Err()
}

var (
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	uuids      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// dynamic matches a value that is looked up when it is needed.
	dynamic = regexp.MustCompile(`^\s*\{\{.*\}\}\s*$`)
)

// credential says why a literal looks like a credential; "" if it does not.
func credential(l config.Literal) string {
	text := strings.TrimSpace(l.Text)
	if privateKey.MatchString(text) {
		return "" // found in the file itself
	}
	if u, err := url.Parse(text); err == nil && u.User != nil && u.Scheme != "" {
		if password, ok := u.User.Password(); ok && password != "" && !dynamic.MatchString(password) {
			return "the URL contains a password"
		}
	}
	if notify.IsSecret(l.Key) && !strings.Contains(text, "{{") && text != "" {
		return "looks like a secret in plain text"
	}
	joined := redact.Words(l.Name)
	if len(text) == 0 || dynamic.MatchString(text) || config.IsTemplate(text) {
		return ""
	}
	if !redact.NamesCredential(l.Name) && !(strings.HasSuffix(joined, " secret id ") && uuids.MatchString(text)) {
		return ""
	}
	switch strings.ToLower(text) {
	case "true", "false", "null":
		return "" // renew_token
	}
	if strings.HasPrefix(text, "arn:") || isPath(text) && (strings.Contains(joined, " key ") || strings.Contains(joined, " credentials ")) {
		return ""
	}
	return "looks like a secret in plain text"
}

// isPath reports whether a value is a file name: some providers accept a key or the file of a key.
func isPath(text string) bool {
	if strings.ContainsAny(text, " \n{") {
		return false
	}
	switch path.Ext(text) {
	case ".pem", ".key", ".crt", ".json", ".p12", ".pub":
		return true
	}
	return strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "~/")
}

// better says where a secret belongs.
func better(cfg *config.Config, key string) string {
	const last = "; -allow-literal-secrets packs it all the same"
	top, _, _ := strings.Cut(key, ".")
	switch {
	case strings.HasPrefix(key, "consul.auth."):
		return "remove it: in AWS, store an ACL token as consul_token in the stack's secret; on one machine set CONSUL_HTTP_AUTH" + last
	case strings.HasPrefix(key, "consul."):
		return "remove it: store Consul's token as consul_token in the stack's secret in AWS, and in CONSUL_HTTP_TOKEN on one machine" + last
	case top == "vault":
		return "remove it: store Vault's token as vault_token in the stack's secret in AWS, and in VAULT_TOKEN on one machine" + last
	case top == "driver":
		return cfg.Driver().Kind().Secret + last
	case strings.HasPrefix(top, "notify["):
		return "use a template, which is evaluated when an event is delivered, such as {{ secretsmanager \"arn\" }} or {{ ssm \"name\" }}" + last
	case top == "terraform_provider":
		return "use a template, which is evaluated for each run, such as {{ secretsmanager \"arn\" }} or {{ ssm \"name\" }} (" + docs.Page("secrets.md") + "), " +
			"or give the runner's role what the provider needs (the stack's parameter RunnerPolicyArns)" + last
	}
	return "store it in Secrets Manager or Vault, and read it in the module with a data source" + last
}
