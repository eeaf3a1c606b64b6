package terraformcli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
)

// surroundings returns the environment of this process without credentials that
// the providers do not need, without variables that terraform-exec manages (TF_VAR_*,
// TF_LOG, TF_CLI_ARGS*, TF_WORKSPACE and others), and without TF_DATA_DIR, which
// would make tasks share one data directory.
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
		if environ.Withheld(name, providers...) {
			delete(env, name)
		}
	}
	// The check for a newer Terraform takes time if HashiCorp cannot be reached.
	if env["CHECKPOINT_DISABLE"] == "" {
		env["CHECKPOINT_DISABLE"] = "1"
	}
	return env
}

// Environ returns the environment of this process for a program that has no part in
// Terrapulse's credentials, as Terraform gets it for a task without providers.
func Environ() []string {
	var env []string
	for name, value := range surroundings(nil) {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// managed returns the names in an environment that only Terrapulse sets, sorted.
func managed(env map[string]string) []string {
	names := tfexec.ProhibitedEnv(env)
	if _, ok := env["TF_DATA_DIR"]; ok {
		names = append(names, "TF_DATA_DIR")
	}
	slices.Sort(names)
	return names
}

// CheckEnv returns an error if a Terraform that Terrapulse starts cannot get a part of a task's
// task_env.
func CheckEnv(task string, env map[string]string) error {
	if err := rootmodule.CheckEnv(task, env); err != nil {
		return err
	}
	if names := managed(env); len(names) > 0 {
		return fmt.Errorf("task_env of a provider of task %s sets %s, which Terrapulse manages itself: remove it",
			task, strings.Join(names, ", "))
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
	for name, value := range o.Credentials {
		if env[name] = value; value == "" {
			delete(env, name)
		}
	}
	if o.Trace != "" {
		env[tracing.Variable] = o.Trace
	}
	maps.Copy(env, o.Env)
	if o.Shared.usable(env) {
		env["TF_CLI_CONFIG_FILE"] = o.Shared.config
	}
	collectLess(env, memory(), o.Parallel)
	return env, nil
}

// connectToConsul lets Terraform's Consul backend connect as Terrapulse does, by its
// environment variables, which its arguments override. The files of the root module
// hold no credentials.
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
		delete(env, "CONSUL_HTTP_TOKEN_FILE") // it would take precedence
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
	// A backend may use another Consul than the consul block: that one gets no
	// password, and its certificate is verified.
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

// pipesToken reports whether the Consul backend gets Consul's token from a pipe, and
// not from the environment, which providers and provisioners inherit.
func (o Options) pipesToken() bool {
	return tokenPipes && o.Backend.Type == "consul" && o.Consul.Token != "" && !o.ownToken() && !slices.Contains(o.Providers, "consul")
}

// ownToken reports whether the Consul backend has its own token.
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
