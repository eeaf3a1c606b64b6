package terraform

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
)

// ownPrefix begins the names of Terrapulse's own variables.
const ownPrefix = "TERRAPULSE_"

// withheld are the variables that hold Terrapulse's own credentials, with the
// provider that a task lists if it needs them. Consul's token can read and write
// the states of all tasks. Everything else is handed on, as modules and providers
// that were written for Consul-Terraform-Sync rely on it.
var withheld = map[string]string{
	"CONSUL_HTTP_TOKEN":      "consul",
	"CONSUL_HTTP_TOKEN_FILE": "consul",
	"CONSUL_TOKEN":           "consul",
	"CONSUL_HTTP_AUTH":       "consul",
	"VAULT_TOKEN":            "vault",
}

// surroundings is the environment of this process without credentials that the
// providers do not need, and without what would change how Terraform is run:
// variables that terraform-exec manages and refuses to be given (TF_VAR_*,
// TF_LOG, TF_CLI_ARGS*, TF_WORKSPACE and others), and TF_DATA_DIR, which would
// make tasks share one data directory.
func surroundings(providers []string) map[string]string {
	env := map[string]string{}
	for _, entry := range os.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	for _, name := range managed(env) {
		delete(env, name)
	}
	for name := range env {
		if provider, ok := withheld[name]; strings.HasPrefix(name, ownPrefix) || ok && !slices.Contains(providers, provider) {
			delete(env, name)
		}
	}
	// Nobody reads that there is a newer Terraform, and where HashiCorp cannot
	// be reached, asking takes time.
	if env["CHECKPOINT_DISABLE"] == "" {
		env["CHECKPOINT_DISABLE"] = "1"
	}
	return env
}

// managed returns the names in an environment that are not for others to set, sorted.
func managed(env map[string]string) []string {
	names := tfexec.ProhibitedEnv(env)
	if _, ok := env["TF_DATA_DIR"]; ok {
		names = append(names, "TF_DATA_DIR")
	}
	slices.Sort(names)
	return names
}

// CheckEnv reports what in a task's task_env cannot be given to Terraform.
func CheckEnv(task string, env map[string]string) error {
	names := managed(env)
	for _, name := range names {
		if strings.HasPrefix(name, "TF_VAR_") {
			return fmt.Errorf("task_env of a provider of task %s sets %s: a variable of the module cannot be set in this way, "+
				"use the task's variables or variable_files", task, name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("task_env of a provider of task %s sets %s, which Terrapulse manages itself: remove it",
			task, strings.Join(names, ", "))
	}
	for name, value := range env {
		if strings.ContainsRune(name+value, 0) {
			return fmt.Errorf("task_env of a provider of task %s: %q holds a NUL character, which no environment can carry", task, name)
		}
	}
	return nil
}

// environment is what Terraform is started with.
func (o Options) environment() (map[string]string, error) {
	if err := CheckEnv(o.Task, o.Env); err != nil {
		return nil, err
	}
	env := surroundings(o.Providers)
	if o.Backend.Type == "consul" {
		o.connectToConsul(env)
	}
	maps.Copy(env, o.Env)
	collectLess(env, memory(), o.Parallel)
	return env, nil
}

// connectToConsul has Terraform's Consul backend connect as Terrapulse does: it
// takes from the environment what its arguments do not say. Credentials go this
// way, as the files of the root module hold none.
func (o Options) connectToConsul(env map[string]string) {
	c := o.Consul
	set := func(name, value string) {
		if value != "" {
			env[name] = value
		}
	}
	set("CONSUL_HTTP_ADDR", c.Address)
	set("CONSUL_NAMESPACE", c.Namespace)
	set("CONSUL_PARTITION", c.Partition)
	if c.Token != "" {
		delete(env, "CONSUL_HTTP_TOKEN_FILE") // would count for more
	}
	if c.Token != "" && !o.pipesToken() && (!o.ownToken() || slices.Contains(o.Providers, "consul")) {
		env["CONSUL_HTTP_TOKEN"] = c.Token
	}
	set("CONSUL_CACERT", c.TLS.CACert)
	set("CONSUL_CAPATH", c.TLS.CAPath)
	set("CONSUL_CLIENT_CERT", c.TLS.Cert)
	set("CONSUL_CLIENT_KEY", cmp.Or(c.TLS.Key, c.TLS.Cert)) // one file may hold both
	set("CONSUL_TLS_SERVER_NAME", c.TLS.ServerName)
	if c.TLS.Enabled {
		env["CONSUL_HTTP_SSL"] = "true"
	}
	// The rest is for the Consul of the consul block alone: a backend may name
	// another, and that one is neither told this password nor trusted blindly.
	if !o.sameConsul() {
		return
	}
	if c.Auth.Enabled {
		env["CONSUL_HTTP_AUTH"] = c.Auth.Username + ":" + c.Auth.Password
	}
	if c.TLS.Enabled {
		env["CONSUL_HTTP_SSL_VERIFY"] = strconv.FormatBool(c.TLS.Verify)
	}
}

// pipesToken reports whether Consul's token reaches the Consul backend by a pipe
// that Terraform alone gets it from, and not by the environment, which providers
// and provisioners inherit.
func (o Options) pipesToken() bool {
	return tokenPipes && o.Backend.Type == "consul" && o.Consul.Token != "" && !o.ownToken() && !slices.Contains(o.Providers, "consul")
}

// ownToken reports whether the Consul backend has a token of its own, so that it
// needs none from Terrapulse.
func (o Options) ownToken() bool {
	return argument(o.Backend.Body, "access_token") != ""
}

// sameConsul reports whether the Consul backend is at the address of the consul block.
func (o Options) sameConsul() bool {
	address := argument(o.Backend.Body, "address")
	return address == "" || hostOf(address) == hostOf(o.Consul.Address)
}

// hostOf is an address of Consul without the scheme of HTTP.
func hostOf(address string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"), "/")
}
