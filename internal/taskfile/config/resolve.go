package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
)

// checked is the text of a key: a path is absolute, and one of several values that
// may be written in any case is in capitals.
func (l *loader) checked(k key, text *block.String) string {
	value := text.V
	if k.tag.Get("path") != "" {
		return l.abs(value)
	}
	one, anyCase := k.one()
	if anyCase {
		value = strings.ToUpper(value)
	}
	if len(one) > 0 && !slices.Contains(one, value) {
		l.Fail(text.Origin, "invalid "+strings.ReplaceAll(k.name, "_", " ")+" "+block.Quoted(text.V), "allowed: "+strings.Join(one, ", "))
	}
	return value
}

// resolve turns what was written into what it means. It goes on after an error, so
// that one pass finds everything.
func (l *loader) resolve(raw *rawConfig) *Config {
	l.implied(raw)
	l.fill(raw, "")

	cfg := &Config{dir: l.Dir, LogLevel: raw.LogLevel, Port: raw.Port, WorkingDir: raw.WorkingDir, ID: cmp.Or(raw.ID, "cts-"+l.Hostname), Syslog: raw.Syslog}
	if port := rawOf(l, &raw.Port); port.V < 0 || port.V > 65535 {
		l.Fail(port.Origin, block.Quoted(port.Text)+" is not a valid port", "allowed: 0 to 65535")
	}

	cfg.BufferPeriod = l.globalBuffer(&raw.BufferPeriod)
	cfg.RunTimeout = l.runTimeout(rawOf(l, &raw.RunTimeout))
	if keep := rawOf(l, &raw.AuditRetention); keep.V < time.Hour {
		l.Fail(keep.Origin, fmt.Sprintf("%s is too short", block.Quoted(keep.Text)), `a duration of at least an hour, such as "8760h"`)
	}
	cfg.AuditRetention = raw.AuditRetention
	if keep := rawOf(l, &raw.KeepRemoved); keep.V < 0 {
		l.Fail(keep.Origin, fmt.Sprintf("%s is negative", block.Quoted(keep.Text)), `a duration such as "720h", or "0s" to remove the records at once`)
	}
	cfg.KeepRemoved = raw.KeepRemoved
	cfg.Consul = l.consul(&raw.Consul)
	cfg.Vault = l.vault(&raw.Vault)
	cfg.API = l.api(&raw.API, cfg.Vault.Enabled)
	unset := defaultRules
	unset.Approval.People = cfg.API.Access.People
	cfg.Rules = l.rules(&raw.rawRules, unset, cfg.API)
	cfg.TLS = l.apiTLS(&raw.TLS)
	cfg.HighAvailability = l.highAvailability(&raw.HighAvailability)
	cfg.Providers = l.providers(&raw.Providers, cfg.Vault.Enabled)
	if cfg.OtherDriver = l.otherDriver(&raw.Driver, cfg); cfg.OtherDriver == nil {
		cfg.Terraform = l.terraform(&raw.Driver.Terraform, &raw.Consul)
	}
	if cfg.HighAvailability != nil && cfg.Terraform.Backend.Type == "local" {
		l.Warn(raw.Driver.Terraform.Backend.blocks[0].Origin, "Terraform's state stays on this machine: an instance that takes over on another one knows nothing of it, and makes everything anew",
			"use a backend that all instances reach, such as consul")
	}
	cfg.Nomad = l.nomad(&raw.Nomad, cfg)
	cfg.Tasks = l.tasks(raw, cfg)
	cfg.Notify = l.notify(raw, cfg)
	return cfg
}

// implied sets the switches that default to whether anything beside them was
// configured. It comes before the environment is looked at, because variables
// alone do not turn TLS on.
func (l *loader) implied(raw *rawConfig) {
	imply := func(enabled *bool, on bool) {
		if !rawOf(l, enabled).Set {
			*enabled = on
		}
	}
	tls := func(t *ClientTLS, https bool) {
		imply(&t.Enabled, l.anySet(t))
		if https && !rawOf(l, &t.Enabled).Set {
			l.encrypted = append(l.encrypted, &t.Enabled)
		}
	}
	imply(&raw.Syslog.Enabled, l.anySet(&raw.Syslog))
	imply(&raw.TLS.Enabled, l.anySet(&raw.TLS))
	imply(&raw.Consul.Auth.Enabled, l.anySet(&raw.Consul.Auth) || l.Getenv("CONSUL_HTTP_AUTH") != "")
	ssl, _ := strconv.ParseBool(l.Getenv("CONSUL_HTTP_SSL"))
	tls(&raw.Consul.TLS, ssl || strings.HasPrefix(cmp.Or(raw.Consul.Address, l.Getenv("CONSUL_HTTP_ADDR")), "https:"))
	tls(&raw.Nomad.TLS, strings.HasPrefix(cmp.Or(raw.Nomad.Address, l.Getenv("NOMAD_ADDR")), "https:"))
	if c, ok := raw.Driver.kindKeys["terraform-cloud"].(*rawCloud); ok {
		tls(&c.TLS, false)
	}
	imply(&raw.Vault.Enabled, cmp.Or(raw.Vault.Address, l.Getenv("VAULT_ADDR")) != "")
	imply(&raw.Vault.TLS.Enabled, true)
}

// off reports whether a block is switched off.
func (l *loader) off(b reflect.Value) bool {
	k, ok := schemaOf(b.Type()).find("enabled")
	if !ok {
		return false
	}
	on, ok := k.in(b).Addr().Interface().(*bool)
	return ok && !*on && (rawOf(l, on).Set || k.fallback == "" && !slices.Contains(l.encrypted, on))
}

// empty removes what files say in a block that is switched off.
func (l *loader) empty(b reflect.Value) {
	for _, k := range schemaOf(b.Type()).keys {
		switch v := k.in(b); {
		case !k.field:
			l.empty(v)
		case k.name != "enabled":
			delete(l.written, v.Addr().Interface())
			v.SetZero()
		}
	}
}

// anySet reports whether a file sets a key of a block of plain values.
func (l *loader) anySet(keys any) bool {
	b := reflect.ValueOf(keys).Elem()
	return slices.ContainsFunc(schemaOf(b.Type()).keys, func(k key) bool {
		return fieldOf(k.in(b)).(interface{ origin(*loader) *block.Origin }).origin(l).Set
	})
}

// Consul refuses sessions that are shorter or longer.
const (
	minSessionTTL = 10 * time.Second
	maxSessionTTL = 24 * time.Hour
)

func (l *loader) highAvailability(h *HighAvailability) *HighAvailability {
	if !l.place(h).Set {
		return nil
	}
	storage := &h.Cluster.Storage
	switch name := rawOf(l, &h.Cluster.Name); {
	case name.V == "":
		l.Missing(l.place(h).Key("cluster.name"), "name is required for a high availability cluster", "the same for all instances of the cluster")
	case name.V == "." || name.V == ".." || strings.Contains(name.V, "/"):
		l.Fail(name.Origin, "not the name of a cluster: "+block.Quoted(name.V), "it is one part of a path in Consul's KV: no slash, and neither . nor ..")
	}
	if at := l.place(storage); at.Set && !l.place(&storage.Consul).Set {
		l.Missing(*at, "the storage has no type", `write consul after storage, as in storage "consul" { ... }`)
	}
	if ttl := rawOf(l, &storage.Consul.SessionTTL); ttl.V < minSessionTTL || ttl.V > maxSessionTTL {
		l.Fail(ttl.Origin, fmt.Sprintf("session_ttl %s is out of range", block.Quoted(ttl.Text)), "allowed: 10s to 24h")
	}
	return h
}

func (l *loader) consul(c *Consul) Consul {
	c.Namespace, c.Partition = l.Getenv("CONSUL_NAMESPACE"), l.Getenv("CONSUL_PARTITION")
	c.TLS.Key = cmp.Or(c.TLS.Key, c.TLS.Cert) // one file may hold both
	if on, _ := strconv.ParseBool(l.Getenv("CONSUL_HTTP_SSL")); on && !strings.Contains(c.Address, "://") {
		c.Address = "https://" + c.Address
	}
	if file := l.Getenv("CONSUL_HTTP_TOKEN_FILE"); c.Token == "" && file != "" {
		c.Token = l.secretFile(file, block.Origin{Path: "environment variable CONSUL_HTTP_TOKEN_FILE"})
	}
	if user := l.Getenv("CONSUL_HTTP_AUTH"); user != "" && c.Auth.Enabled && !rawOf(l, &c.Auth.Username).Set && !rawOf(l, &c.Auth.Password).Set {
		c.Auth.Username, c.Auth.Password, _ = strings.Cut(user, ":")
	}
	if namespace := rawOf(l, &c.KVNamespace); namespace.Set {
		l.Warn(namespace.Origin, "kv_namespace has no effect", "name the namespace in the backend block")
	}

	if address := rawOf(l, &c.ServiceRegistration.DefaultCheck.Address); address.V != "" {
		const hint = `such as "http://10.0.0.5:8558"`
		if !strings.HasPrefix(address.V, "http") {
			l.Fail(address.Origin, "default check address must include scheme (http or https): "+block.Quoted(address.V), hint)
		} else if u, err := url.ParseRequestURI(address.V); err != nil || u.Host == "" {
			l.Fail(address.Origin, "error with address for default check: "+block.Quoted(address.V)+" is not a URL with scheme and host", hint)
		}
	}
	return *c
}

// secretFile returns the content of a file that holds a token.
func (l *loader) secretFile(file string, at block.Origin) string {
	src, err := l.readFile(file)
	if err != nil {
		l.Fail(at, readable(err, file), "")
	}
	return strings.TrimSpace(string(src))
}

func (l *loader) vault(v *Vault) Vault {
	v.TLS.Key = cmp.Or(v.TLS.Key, v.TLS.Cert) // one file may hold both
	if !v.Enabled {
		return *v
	}
	l.skipVerify("VAULT_SKIP_VERIFY", &v.TLS)
	switch {
	case v.AgentTokenFile != "":
		file := rawOf(l, &v.AgentTokenFile)
		v.Token = l.secretFile(file.V, file.Origin)
	case v.Token == "":
		// The Vault CLI leaves its token there. Without one, Vault says so.
		if home := cmp.Or(l.Getenv("HOME"), l.Getenv("USERPROFILE")); home != "" {
			src, _ := os.ReadFile(filepath.Join(home, ".vault-token"))
			v.Token = strings.TrimSpace(string(src))
		}
	}
	if !rawOf(l, &v.RenewToken).Set && l.Getenv("VAULT_RENEW_TOKEN") == "" {
		v.RenewToken = v.Token != "" && v.AgentTokenFile == ""
	}
	return *v
}

// skipVerify applies a variable that says that the server's certificate is not verified.
func (l *loader) skipVerify(variable string, t *ClientTLS) {
	skip := l.Getenv(variable)
	if skip == "" || rawOf(l, &t.Verify).Set {
		return
	}
	b, err := strconv.ParseBool(skip)
	if err != nil {
		l.Fail(block.Origin{Path: "environment variable " + variable}, "cannot parse "+block.Quoted(skip)+" as a bool", "allowed: true, false")
	}
	t.Verify = !b
}

func (l *loader) apiTLS(t *APITLS) APITLS {
	if !t.Enabled {
		return *t
	}
	at := l.place(t)
	switch {
	case t.Cert == "" && t.Key == "":
		l.Fail(*at, "key and cert are required if TLS is enabled on the API", "set tls.key and tls.cert, or tls.enabled to false")
	case t.Key == "":
		l.Fail(at.Key("key"), "key is required if cert is configured for TLS on the API", "the private key's file")
	case t.Cert == "":
		l.Fail(at.Key("cert"), "cert is required if key is configured for TLS on the API", "the certificate's file")
	default:
		if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			cert, key := rawOf(l, &t.Cert), rawOf(l, &t.Key)
			l.Fail(cert.Origin, fmt.Sprintf("cert %s and key %s do not load: %s", block.Quoted(cert.V), block.Quoted(key.V), err), "")
		}
	}
	if t.VerifyIncoming && t.CACert == "" && t.CAPath == "" {
		l.Fail(rawOf(l, &t.VerifyIncoming).Origin, "either ca_cert or ca_path is required if verify_incoming is enabled on the API", "")
	}
	for _, name := range []*string{&t.CACert, &t.CAPath} {
		if f := rawOf(l, name); f.V != "" {
			if _, err := os.Stat(*name); err != nil {
				l.Fail(f.Origin, readable(err, f.V), "")
			}
		}
	}
	if t.VerifyIncoming && t.CACert != "" && t.CAPath != "" {
		l.Warn(rawOf(l, &t.CAPath).Origin, "ca_path has no effect beside ca_cert", "remove one of them")
	}
	return *t
}

// backends are the ones that Consul-Terraform-Sync allows, and those of Terraform
// beside them that are still in use. "cloud" is not a backend block to
// Terraform, but is configured where the others are.
var backends = []string{"azurerm", "cloud", "consul", "cos", "gcs", "http", "kubernetes", "local", "manta", "oci", "oss", "pg", "remote", "s3"}

// oldest is the first supported version of each engine: of Terraform the first
// that knows the source of a provider, of OpenTofu the first release.
var oldest = map[string]*version.Version{
	EngineTerraform: version.Must(version.NewVersion("0.13.0")),
	EngineTofu:      version.Must(version.NewVersion("1.6.0")),
}

var exactVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

func (l *loader) terraform(raw *rawTerraform, consul *Consul) Terraform {
	t := Terraform{
		Engine: raw.Engine, Version: strings.TrimPrefix(raw.Version, "v"), Path: cmp.Or(raw.Path, l.Dir),
		Log: raw.Log, PersistLog: raw.PersistLog,
	}
	if oldest[t.Engine] != nil && t.Version != "" {
		l.engineVersion(rawOf(l, &raw.Version), t)
	}
	t.Backend = l.backend(&raw.Backend, rawOf(l, &consul.Address).V, *consul)
	t.RequiredProviders = l.requiredProviders(raw.RequiredProviders, "driver.terraform.required_providers")
	return t
}

// requiredProviders returns the required_providers at a path.
func (l *loader) requiredProviders(raw freeForm, path string) map[string]cty.Value {
	var required map[string]cty.Value
	for _, name := range sortedKeys(raw.entries) {
		n := raw.entries[name]
		at := block.Origin{Pos: n.pos, Path: path + "." + name}
		switch {
		case !identifier(name):
			l.Fail(at, "not a provider's name: "+block.Quoted(name), identifierHint)
		case n.kind == kindString || n.kind == kindObject:
			v, ok := l.attribute(n, at)
			if !ok {
				continue
			}
			if required == nil {
				required = map[string]cty.Value{}
			}
			required[name] = v
		default:
			l.Fail(at, "must be a version or a map, not "+n.kind.String(), `such as "~> 2.8" or { source = "hashicorp/local", version = "~> 2.8" }`)
		}
	}
	return required
}

func (l *loader) engineVersion(raw *block.String, t Terraform) {
	name := map[string]string{EngineTerraform: "Terraform", EngineTofu: "OpenTofu"}[t.Engine]
	v, err := version.NewVersion(t.Version)
	switch {
	case err != nil:
		l.Fail(raw.Origin, "malformed version: "+block.Quoted(raw.V), `an exact version such as "1.16.4"`)
	case !exactVersion.MatchString(t.Version):
		l.Fail(raw.Origin, "provide the exact "+name+" version to install: "+block.Quoted(raw.V), `three numbers, such as "1.16.4"`)
	case v.LessThan(oldest[t.Engine]):
		l.Fail(raw.Origin, name+" version is not supported: "+block.Quoted(raw.V), ">= "+oldest[t.Engine].String())
	}
}

// backend returns the one backend, or the default.
func (l *loader) backend(raw *labelled, address string, consul Consul) Backend {
	var b Backend
	kind := "consul"
	for i, written := range raw.blocks {
		first := raw.blocks[0]
		switch {
		case !slices.Contains(backends, written.label):
			hint := "allowed: " + strings.Join(backends, ", ")
			if near, ok := suggest.Nearest(written.label, backends); ok {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			l.Fail(written.Origin, "unsupported Terraform backend "+block.Quoted(written.label), hint)
		case i > 0 && written.label != first.label:
			l.Fail(written.Origin, fmt.Sprintf("only one backend can be configured, and backend %q is already (%s)", first.label, first.Pos), "remove one of them")
		case i > 0 && written.Pos.File == raw.blocks[i-1].Pos.File:
			l.Fail(written.Origin, "only one 'backend' block can be configured in a file", "join the blocks")
		}
		kind = written.label
	}
	b.Type = kind
	if kind == "consul" {
		b.Body.Attributes = consulBackend(address, consul)
	}
	for _, written := range raw.blocks {
		if written.label != kind {
			continue
		}
		over := l.body(written.body, written.Origin)
		b.Body = Body{Attributes: mergedMap(b.Body.Attributes, over.Attributes), Blocks: mergedMap(b.Body.Blocks, over.Blocks)}
	}
	return b
}

// consulBackend is where Consul-Terraform-Sync keeps state unless told otherwise.
func consulBackend(address string, consul Consul) map[string]cty.Value {
	attrs := map[string]cty.Value{
		"address": cty.StringVal(address),
		"path":    cty.StringVal(statePath(consul.KVPath)),
		"gzip":    cty.True,
	}
	if consul.TLS.Enabled {
		attrs["scheme"] = cty.StringVal("https")
		for name, file := range map[string]string{"ca_file": consul.TLS.CACert, "cert_file": consul.TLS.Cert, "key_file": consul.TLS.Key} {
			if file != "" {
				attrs[name] = cty.StringVal(file)
			}
		}
	}
	return attrs
}

func statePath(kvPath string) string {
	if strings.HasSuffix(kvPath, "/terraform") {
		return kvPath
	}
	return path.Join(kvPath, "terraform")
}
