package config

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

var cloudKind = &DriverKind{
	Name:        "terraform-cloud",
	Doc:         "HCP Terraform or Terraform Enterprise executes the runs; only one driver can be configured",
	Keys:        func() DriverKeys { return new(rawCloud) },
	Templates:   []string{cloudTokenKey, cloudNotificationTokenKey},
	Remote:      true,
	PlansAlways: true,
	Secret:      "remove it: set the token for HCP Terraform as hcp_token in the stack's secret in AWS, and with TFC_TOKEN on one machine",
}

// Cloud is the driver "terraform-cloud" block: Terraform runs in HCP Terraform or in
// Terraform Enterprise.
type Cloud struct {
	Hostname     string // URL with scheme and host, without a path
	Organization string
	// Token is the API token, or a template of it (see IsTemplate). It is empty if
	// Options.TokenLater allows that.
	Token string
	// WorkspacePrefix begins the names of workspaces. It includes the dash that the
	// deprecated key adds.
	WorkspacePrefix string
	Tags            []string // of all workspaces; CloudTag is the first
	TagsAllowlist   []string // a workspace needs one of these, unless the list is empty
	TagsDenylist    []string // a workspace must have none of these
	// RequiredProviders are as those of Terraform.
	RequiredProviders map[string]cty.Value
	TLS               ClientTLS

	// HCP Terraform sends notifications about runs to NotificationURL, signed with
	// NotificationToken, which may be a template. Both may be empty.
	NotificationURL   string
	NotificationToken string
}

// CloudTag is the tag that all workspaces of tasks get, as in Consul-Terraform-Sync.
const CloudTag = "source:cts"

// The keys of Cloud whose value may be a template.
const (
	cloudTokenKey             = "driver.terraform-cloud.token"
	cloudNotificationTokenKey = "driver.terraform-cloud.notification.token"
)

// Workspace returns the name of the workspace of a task.
func (c *Cloud) Workspace(task string) string { return c.WorkspacePrefix + task }

// What carries out the runs of a workspace.
const (
	ExecutionRemote = "remote"
	ExecutionAgent  = "agent" // of the organization's own
)

// CloudWorkspace is what a task says about its workspace. With driver "terraform" it
// is the zero value.
type CloudWorkspace struct {
	ExecutionMode    string // ExecutionRemote, ExecutionAgent, or "" to leave that of a workspace that exists
	AgentPoolID      string // one of these two is set with ExecutionAgent
	AgentPoolName    string
	TerraformVersion string // exact version; "" leaves it to HCP Terraform
}

// Cloud returns the driver "terraform-cloud" block; nil with another driver.
func (c *Config) Cloud() *Cloud {
	cloud, _ := c.OtherDriver.(*Cloud)
	return cloud
}

// Driver implements DriverKeys.
func (r *rawCloud) Driver(l *Loader, cfg *Config) Driver {
	c := &Cloud{
		Hostname:          l.cloudURL(r),
		Organization:      r.Organization.V,
		Token:             l.cloudToken(cloudTokenKey, r.Token, cfg.Vault.Enabled),
		WorkspacePrefix:   r.Workspaces.Prefix.V,
		Tags:              []string{CloudTag},
		TagsAllowlist:     l.tags(r.Workspaces.TagsAllowlist),
		TagsDenylist:      l.tags(r.Workspaces.TagsDenylist),
		RequiredProviders: l.requiredProviders(r.RequiredProviders, "driver.terraform-cloud.required_providers"),
		TLS:               r.TLS,
		NotificationURL:   r.Notification.URL.V,
		NotificationToken: l.cloudToken(cloudNotificationTokenKey, r.Notification.Token, cfg.Vault.Enabled),
	}
	c.TLS.Key = cmp.Or(c.TLS.Key, c.TLS.Cert) // one file may hold both
	for _, tag := range l.tags(r.Workspaces.Tags) {
		if !slices.Contains(c.Tags, tag) {
			c.Tags = append(c.Tags, tag)
		}
	}
	switch old := r.WorkspacePrefix; {
	case old.V == "":
	case r.Workspaces.Prefix.V != "":
		l.Warn(old.Origin, "workspace_prefix has no effect beside workspaces.prefix", "remove it")
	default:
		c.WorkspacePrefix = old.V + "-"
	}
	if c.Organization == "" && !l.ForServer {
		l.Missing(r.Key("organization"), "organization is required", "name the organization in HCP Terraform here or in the environment variable TFC_ORGANIZATION")
	}
	if c.Token == "" && !l.TokenLater && !l.ForServer {
		l.Missing(r.Key("token"), "token is required", "set the environment variable TFC_TOKEN to the API token of a team that may manage workspaces")
	}
	if n := r.Notification; n.URL.V != "" && !serverURL(n.URL.V, true) {
		l.Fail(n.URL.Origin, "not a URL: "+block.Quoted(n.URL.V), `such as "https://terrapulse.example.com/v1/notifications/terraform-cloud"`)
	} else if n.URL.V != "" && c.NotificationToken == "" {
		l.Missing(n.Key("token"), "token is required: without it, notifications are not signed, and are refused", "set it to a long random text, such as the output of `openssl rand -hex 32`")
	}
	if i := slices.IndexFunc(cfg.Providers, func(p Provider) bool { return p.AutoCommit }); i >= 0 {
		l.Warn(r.Origin, "auto_commit of provider "+cfg.Providers[i].ID()+" has no effect with this driver: what HCP Terraform changes on a firewall is not committed",
			"commit there, or use driver \"terraform\"")
	}
	return c
}

// Kind implements Driver.
func (*Cloud) Kind() *DriverKind { return cloudKind }

// Required implements Driver.
func (c *Cloud) Required() map[string]cty.Value { return c.RequiredProviders }

// Texts implements Driver.
func (c *Cloud) Texts() []notify.Text {
	return []notify.Text{{Key: cloudTokenKey, Text: c.Token}, c.SignedWith()}
}

// SignedWith returns the key of the signature of notifications.
func (c *Cloud) SignedWith() notify.Text {
	return notify.Text{Key: cloudNotificationTokenKey, Text: c.NotificationToken}
}

// Meaning implements Driver.
func (c *Cloud) Meaning(_ *Config, t *Task) map[string]any {
	m, place := meaning{}, meaning{}
	place.set("hostname", c.Hostname)
	place.set("organization", c.Organization)
	place.set("workspace", c.Workspace(t.Name))
	place.set("tags", c.Tags)
	place.set("execution_mode", t.Cloud.ExecutionMode)
	place.set("agent_pool_id", t.Cloud.AgentPoolID)
	place.set("agent_pool_name", t.Cloud.AgentPoolName)
	m.set("terraform", t.Cloud.TerraformVersion)
	m.set("cloud", place)
	return m
}

// StateOf implements Driver.
func (c *Cloud) StateOf(t *Task) string {
	return fmt.Sprintf("in the workspace %s of HCP Terraform", c.Workspace(t.Name))
}

// Verbose implements Driver.
func (*Cloud) Verbose() bool { return false }

// AppliesPlans implements Driver.
func (*Cloud) AppliesPlans() bool { return true }

// NotInAWS implements Driver.
func (c *Cloud) NotInAWS(literals []Literal) []Diagnostic {
	const key = "driver.terraform-cloud.organization"
	if slices.ContainsFunc(literals, func(l Literal) bool { return l.Key == key }) {
		return nil
	}
	return []Diagnostic{{Key: key, Problem: "the functions in AWS do not have the environment variable TFC_ORGANIZATION of this machine",
		Hint: "write organization and hostname in the task file"}}
}

// cloudURL returns the address of HCP Terraform. A scheme may be left out, because many
// task files do.
func (l *loader) cloudURL(raw *rawCloud) string {
	address := strings.TrimSuffix(raw.Hostname.V, "/")
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	if !serverURL(address, false) {
		at := raw.Hostname.Origin
		if !at.Set {
			at.Path = "environment variable TFC_HOSTNAME"
		}
		l.Fail(at, "not the address of a server: "+block.Quoted(raw.Hostname.V), `scheme, host and perhaps port, such as "https://app.terraform.io"`)
	}
	return address
}

// serverURL reports whether a text is a URL of HTTP without credentials, with a path
// only if that is allowed.
func serverURL(text string, path bool) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" &&
		(path || u.Path == "")
}

// cloudToken returns a token, or a template of it.
func (l *loader) cloudToken(key string, raw block.String, vault bool) string {
	if IsTemplate(raw.V) {
		l.template(&node{kind: kindString, text: raw.V, pos: raw.Pos}, key, vault)
	}
	return raw.V
}

func (l *loader) tags(raw block.Strings) []string {
	for i, tag := range raw.V {
		if strings.TrimSpace(tag) == "" {
			l.Fail(raw.Element(i), "the tag is empty", "")
		}
	}
	return raw.V
}

// workspaceName is what HCP Terraform accepts as the name of a workspace.
var workspaceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,90}$`)

// cloudWorkspace returns what a task says about its workspace, and the same as it is
// written.
func (l *loader) cloudWorkspace(raw *rawTask, cfg *Config) (w, written CloudWorkspace) {
	r, version := &raw.TerraformCloudWorkspace, raw.TerraformCloudWorkspace.TerraformVersion
	written = CloudWorkspace{r.ExecutionMode.V, r.AgentPoolID.V, r.AgentPoolName.V, version.V}
	if old := raw.TerraformVersion; old.V != "" && version.V != "" {
		l.Warn(old.Origin, "terraform_version has no effect beside terraform_cloud_workspace.terraform_version", "remove it")
	} else if old.V != "" {
		version, written.TerraformVersion = old, old.V
	}
	if mode := written.ExecutionMode; mode != "" && mode != ExecutionRemote && mode != ExecutionAgent {
		l.Fail(r.ExecutionMode.Origin, "invalid execution mode "+block.Quoted(mode), "allowed: remote, agent")
	}
	cloud := cfg.Cloud()
	if cloud == nil && !l.ForServer {
		const unsupported = "unsupported configuration " // scripts look for these words
		if raw.TerraformVersion.V != "" {
			l.Fail(raw.TerraformVersion.Origin, unsupported+"'terraform_version' for task "+block.Quoted(raw.Name.V), `it needs driver "terraform-cloud"; set version in driver "terraform"`)
		}
		if r.Set && written != (CloudWorkspace{}) {
			l.Fail(r.Origin, unsupported+"'terraform_cloud_workspace' for task "+block.Quoted(raw.Name.V), `it needs driver "terraform-cloud"; remove it, or configure that driver`)
		}
		return CloudWorkspace{}, written
	}
	w = written
	pool := r.AgentPoolID
	if pool.V == "" {
		pool = r.AgentPoolName
	}
	switch w.ExecutionMode {
	case "", ExecutionRemote:
		if pool.V != "" {
			l.Fail(pool.Origin, `an agent pool needs execution_mode "agent"`, "set execution_mode, or remove the agent pool")
		}
	case ExecutionAgent:
		if pool.V == "" {
			l.Missing(r.Key("agent_pool_id"), `execution_mode "agent" needs an agent pool`, "set agent_pool_id or agent_pool_name")
		}
	}
	if w.AgentPoolID != "" && w.AgentPoolName != "" {
		l.Warn(r.AgentPoolName.Origin, "agent_pool_name has no effect beside agent_pool_id", "remove one of them")
		w.AgentPoolName = ""
	}
	if w.TerraformVersion = strings.TrimPrefix(version.V, "v"); w.TerraformVersion != "" {
		l.engineVersion(&version, Terraform{Engine: EngineTerraform, Version: w.TerraformVersion})
	}
	if cloud == nil {
		return w, written
	}
	if name := cloud.Workspace(raw.Name.V); raw.Name.V != "" && !workspaceName.MatchString(name) {
		l.Fail(raw.Name.Origin, "HCP Terraform does not accept the name of the task's workspace: "+block.Quoted(name),
			"at most 90 letters of English, digits, underscores and dashes, with the prefix")
	}
	return w, written
}
