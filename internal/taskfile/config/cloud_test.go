package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// cloudDriver is a driver block that is right, with something added inside.
func cloudDriver(inside string) string {
	return "driver \"terraform-cloud\" {\n  organization = \"network\"\n  token = \"t\"\n" + inside + "\n}\n"
}

func TestCloud_DefaultsAndEnvironmentAreFilledIn(t *testing.T) {
	env := map[string]string{"TFC_HOSTNAME": "https://tfe.example.com:8443/", "TFC_ORGANIZATION": "from-env", "TFC_TOKEN": "secret"}
	verify := ClientTLS{Verify: true}
	for _, tt := range []struct {
		name, driver string
		env          map[string]string
		want         Cloud
	}{
		{"only what is required", cloudDriver(""), nil,
			Cloud{Hostname: "https://app.terraform.io", Organization: "network", Token: "t", Tags: []string{CloudTag}, TLS: verify}},
		{"everything from the environment", `driver "terraform-cloud" {}`, env,
			Cloud{Hostname: "https://tfe.example.com:8443", Organization: "from-env", Token: "secret", Tags: []string{CloudTag}, TLS: verify}},
		{"a file wins over the environment", cloudDriver(`hostname = "https://other.example.com"`), env,
			Cloud{Hostname: "https://other.example.com", Organization: "network", Token: "t", Tags: []string{CloudTag}, TLS: verify}},
		{"a host name without a scheme", cloudDriver(`hostname = "tfe.example.com"`), nil,
			Cloud{Hostname: "https://tfe.example.com", Organization: "network", Token: "t", Tags: []string{CloudTag}, TLS: verify}},
		{"workspaces", cloudDriver("workspaces {\n prefix = \"p_\"\n tags = [\"a\", \"source:cts\"]\n tags_allowlist = [\"b\"]\n tags_denylist = [\"c\"]\n}"), nil,
			Cloud{Hostname: "https://app.terraform.io", Organization: "network", Token: "t", WorkspacePrefix: "p_", Tags: []string{CloudTag, "a"}, TagsAllowlist: []string{"b"}, TagsDenylist: []string{"c"}, TLS: verify}},
		{"any key of tls enables it", cloudDriver("required_providers { aws = \"1.0.0\" }\ntls {\n cert = \"/both.pem\"\n verify = false\n}"), nil,
			Cloud{Hostname: "https://app.terraform.io", Organization: "network", Token: "t", Tags: []string{CloudTag},
				RequiredProviders: map[string]cty.Value{"aws": cty.StringVal("1.0.0")}, TLS: ClientTLS{Enabled: true, Cert: "/both.pem", Key: "/both.pem"}}},
		{"notifications", cloudDriver("notification {\n url = \"https://me.example.com/hint\"\n token = \"{{ env \\\"X\\\" }}\"\n}"), nil,
			Cloud{Hostname: "https://app.terraform.io", Organization: "network", Token: "t", Tags: []string{CloudTag}, TLS: verify,
				NotificationURL: "https://me.example.com/hint", NotificationToken: `{{ env "X" }}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := loadEnv(t, tt.env, "f.hcl", tt.driver)
			if diff := cmp.Diff(&tt.want, cfg.Cloud(), ctyValues); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Terraform{}, cfg.Terraform); diff != "" || len(cfg.Warnings) > 0 {
				t.Errorf("warnings %v, the other driver is configured:\n%s", cfg.Warnings, diff)
			}
		})
	}
}

func TestCloud_WorkspacesOfTasks(t *testing.T) {
	for _, tt := range []struct {
		name, driver, inside string
		workspace            string
		want                 CloudWorkspace
		said                 string // warnings
	}{
		{"nothing", "", "", "t", CloudWorkspace{}, ""},
		{"a prefix", `workspaces { prefix = "cts_" }`, "", "cts_t", CloudWorkspace{}, ""},
		{"the deprecated prefix adds a dash", `workspace_prefix = "cts"`, "", "cts-t", CloudWorkspace{},
			"f.hcl:4: driver.terraform-cloud.workspace_prefix: workspace_prefix is deprecated; use prefix in workspaces, with a dash at its end"},
		{"both prefixes", "workspace_prefix = \"cts\"\nworkspaces { prefix = \"n\" }", "", "nt", CloudWorkspace{},
			"f.hcl:4: driver.terraform-cloud.workspace_prefix: workspace_prefix is deprecated; use prefix in workspaces, with a dash at its end\n" +
				"f.hcl:4: driver.terraform-cloud.workspace_prefix: workspace_prefix has no effect beside workspaces.prefix; remove it"},
		{"an agent by its pool's name", "", "terraform_cloud_workspace {\n execution_mode = \"agent\"\n agent_pool_name = \"pool\"\n}", "t",
			CloudWorkspace{ExecutionMode: "agent", AgentPoolName: "pool"}, ""},
		{"the id of a pool wins over its name", "", "terraform_cloud_workspace {\n execution_mode = \"agent\"\n agent_pool_name = \"pool\"\n agent_pool_id = \"apool-1\"\n}", "t",
			CloudWorkspace{ExecutionMode: "agent", AgentPoolID: "apool-1"},
			"f.hcl:12: task[0].terraform_cloud_workspace.agent_pool_name: agent_pool_name has no effect beside agent_pool_id; remove one of them"},
		{"a version", "", `terraform_cloud_workspace { terraform_version = "v1.16.4" }`, "t", CloudWorkspace{TerraformVersion: "1.16.4"}, ""},
		{"the deprecated version", "", `terraform_version = "1.1.0"`, "t", CloudWorkspace{TerraformVersion: "1.1.0"},
			"f.hcl:10: task[0].terraform_version: terraform_version is deprecated; use terraform_version in terraform_cloud_workspace"},
		{"both versions", "", "terraform_version = \"1.1.0\"\nterraform_cloud_workspace { terraform_version = \"1.2.0\" }", "t", CloudWorkspace{TerraformVersion: "1.2.0"},
			"f.hcl:10: task[0].terraform_version: terraform_version is deprecated; use terraform_version in terraform_cloud_workspace\n" +
				"f.hcl:10: task[0].terraform_version: terraform_version has no effect beside terraform_cloud_workspace.terraform_version; remove it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := cloudDriver(tt.driver) + aTask(services+"\n"+tt.inside)
			if strings.Contains(tt.driver, "\n") { // the lines of the task do not matter
				text = cloudDriver(tt.driver) + aTask(services)
			}
			cfg := load(t, "f.hcl", text)
			task := &cfg.Tasks[0]
			if diff := cmp.Diff(tt.want, task.Cloud); diff != "" || cfg.Cloud().Workspace(task.Name) != tt.workspace {
				t.Errorf("workspace %s, unexpected (-want +got):\n%s", cfg.Cloud().Workspace(task.Name), diff)
			}
			var said []string
			for _, w := range cfg.Warnings {
				said = append(said, w.String())
			}
			if got := strings.Join(said, "\n"); got != tt.said {
				t.Errorf("warned:\n%s\nwant:\n%s", got, tt.said)
			}
		})
	}
}

// The catalogue is reported in each format alike.
func init() {
	catalogue = append(catalogue, []struct{ name, file, want string }{
		{"nothing that is required", `driver "terraform-cloud" {}`,
			"f.hcl:1: driver.terraform-cloud.organization: organization is required; name the organization in HCP Terraform here or in the environment variable TFC_ORGANIZATION\n" +
				"f.hcl:1: driver.terraform-cloud.token: token is required; set the environment variable TFC_TOKEN to the API token of a team that may manage workspaces"},
		{"a backend", cloudDriver(`backend "s3" {}`),
			`f.hcl:4: driver.terraform-cloud.backend: invalid key "backend"; allowed: hostname, notification, organization, required_providers, tls, token, workspaces`},
		{"a host with a path", cloudDriver(`hostname = "https://tfe.example.com/api"`),
			`f.hcl:4: driver.terraform-cloud.hostname: not the address of a server: "https://tfe.example.com/api"; scheme, host and perhaps port, such as "https://app.terraform.io"`},
		{"an empty tag", cloudDriver(`workspaces { tags = ["a", ""] }`), `f.hcl:4: driver.terraform-cloud.workspaces.tags[1]: the tag is empty`},
		{"a token from Vault without Vault", "driver \"terraform-cloud\" {\n organization = \"o\"\n token = \"{{ with secret \\\"p\\\" }}{{ .Data.x }}{{ end }}\"\n}",
			`f.hcl:3: driver.terraform-cloud.token: detected dynamic configuration using Vault: missing Vault configuration; add a vault block with an address`},
		{"notifications that are not signed", cloudDriver("notification {\n url = \"https://me.example.com\"\n}"),
			"f.hcl:4: driver.terraform-cloud.notification.token: token is required: without it, notifications are not signed, and are refused; set it to a long random text, such as the output of `openssl rand -hex 32`"},
		{"a notification to what is no URL", cloudDriver("notification {\n url = \"me\"\n token = \"x\"\n}"),
			`f.hcl:5: driver.terraform-cloud.notification.url: not a URL: "me"; such as "https://terrapulse.example.com/v1/notifications/terraform-cloud"`},
		{"a version of two parts", cloudDriver("") + aTask(services+"\nterraform_cloud_workspace { terraform_version = \"1.1\" }"),
			`f.hcl:10: task[0].terraform_cloud_workspace.terraform_version: provide the exact Terraform version to install: "1.1"; three numbers, such as "1.16.4"`},
		{"local execution", cloudDriver("") + aTask(services+"\nterraform_cloud_workspace { execution_mode = \"local\" }"),
			`f.hcl:10: task[0].terraform_cloud_workspace.execution_mode: invalid execution mode "local"; allowed: remote, agent`},
		{"an agent without a pool", cloudDriver("") + aTask(services+"\nterraform_cloud_workspace { execution_mode = \"agent\" }"),
			`f.hcl:10: task[0].terraform_cloud_workspace.agent_pool_id: execution_mode "agent" needs an agent pool; set agent_pool_id or agent_pool_name`},
		{"a pool without an agent", cloudDriver("") + aTask(services+"\nterraform_cloud_workspace { agent_pool_name = \"p\" }"),
			`f.hcl:10: task[0].terraform_cloud_workspace.agent_pool_name: an agent pool needs execution_mode "agent"; set execution_mode, or remove the agent pool`},
		{"a task whose workspace cannot have this name", cloudDriver("") + strings.Replace(aTask(services), `"t"`, `"zürich"`, 1),
			`f.hcl:7: task[0].name: HCP Terraform does not accept the name of the task's workspace: "zürich"; at most 90 letters of English, digits, underscores and dashes, with the prefix`},
	}...)
}

func TestCloud_ReportsMistakesAcrossFilesAndInTheEnvironment(t *testing.T) {
	dir := write(t, "a.hcl", cloudDriver(""), "b.hcl", `driver "terraform" {}`)
	if got, want := mistakesIn(t, options(dir, "a.hcl", "b.hcl")), `a.hcl:1: driver.terraform-cloud: only one driver can be configured, and driver "terraform" is already (b.hcl:1); remove one of them`; got != want {
		t.Errorf("two drivers: %s", got)
	}
	o := options(write(t, "f.hcl", `driver "terraform-cloud" {}`), "f.hcl")
	o.Getenv = environment(map[string]string{"TFC_HOSTNAME": "ftp://x", "TFC_ORGANIZATION": "o"})
	o.TokenLater = true
	if got, want := mistakesIn(t, o), `environment variable TFC_HOSTNAME: not the address of a server: "ftp://x"; scheme, host and perhaps port, such as "https://app.terraform.io"`; got != want {
		t.Errorf("the environment: %s", got)
	}
}

func TestCloud_AutoCommitHasNoEffect(t *testing.T) {
	cfg := load(t, "f.hcl", cloudDriver("")+"terraform_provider \"panos\" {\n auto_commit = true\n}\n")
	if len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].String(), "f.hcl:1: driver.terraform-cloud: auto_commit of provider panos has no effect") {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

// Task files of CTS Enterprise as people have published them, with names changed.
func TestCloud_FilesOfCTSEnterpriseLoadUnchanged(t *testing.T) {
	for name, text := range map[string]string{
		"token and providers from Vault": `
license {
  path = "/opt/consul/license.hclic"
  auto_retrieval {
    enabled = false
  }
}
vault {
  address = "https://vault.example.com"
}
driver "terraform-cloud" {
  hostname     = "app.terraform.io"
  organization = "network"
  token        = "{{ with secret \"secret/tfc\" }}{{ .Data.data.token }}{{ end }}"
  required_providers {
    bigip = {
      source = "F5Networks/bigip"
    }
  }
}
terraform_provider "bigip" {
  password = "{{ with secret \"secret/f5\" }}{{ .Data.data.password }}{{ end }}"
}
task {
  name      = "frontend"
  module    = "github.com/example/workspaces"
  providers = ["bigip"]
  condition "services" {
    names      = ["web", "nginx"]
    datacenter = "dc1"
    namespace  = "default"
  }
}`,
		"deprecated keys, in any order": `
license_path = "/home/someone/"
task {
  name              = "add-instance"
  source            = "github.com/example/underlay"
  services          = ["nginx"]
  terraform_version = "1.1.9"
}
driver "terraform-cloud" {
  hostname         = "https://app.terraform.io"
  organization     = "network"
  workspace_prefix = "cts"
  token            = "plain"
  tls {
    enabled = true
    verify  = true
  }
}`,
		"workspaces": `
driver "terraform-cloud" {
  organization = "network"
  token        = "plain"
  workspaces {
    tags           = ["source:cts"]
    tags_allowlist = []
    tags_denylist  = []
  }
}
task {
  name   = "scheduled"
  module = "./module"
  terraform_cloud_workspace {
    execution_mode    = "agent"
    agent_pool_id     = "apool-1"
    terraform_version = "1.3.0"
  }
  condition "schedule" {
    cron = "* * * * Mon"
  }
  module_input "services" {
    names = ["web"]
  }
}`,
	} {
		cfg := load(t, "f.hcl", text)
		if cfg.Cloud() == nil || len(cfg.Tasks) != 1 {
			t.Errorf("%s: %+v", name, cfg)
		}
		for _, w := range cfg.Warnings {
			if !strings.Contains(w.Problem, "deprecated") && !strings.Contains(w.Problem, "license") {
				t.Errorf("%s: %s", name, w)
			}
		}
	}
}

// Secrets and what decides only whether a workspace is accepted are not part of the
// digest of a task; where its runs go on is.
func TestCloud_DigestNamesTheWorkspace(t *testing.T) {
	digest := func(inside, workspace string) string {
		cfg := load(t, "f.hcl", cloudDriver(inside)+aTask(services+"\n"+workspace))
		return cfg.Tasks[0].Digest(cfg)
	}
	before := digest("", "")
	seen := []string{before}
	for _, inside := range []string{`hostname = "https://tfe.example.com"`, `workspaces { prefix = "p" }`, `workspaces { tags = ["a"] }`} {
		if d := digest(inside, ""); slices.Contains(seen, d) {
			t.Errorf("%s is not part of the digest", inside)
		} else {
			seen = append(seen, d)
		}
	}
	for _, workspace := range []string{"terraform_version = \"1.2.3\"", "execution_mode = \"agent\"\nagent_pool_id = \"a\"", "execution_mode = \"agent\"\nagent_pool_name = \"a\""} {
		if d := digest("", "terraform_cloud_workspace {\n"+workspace+"\n}"); slices.Contains(seen, d) {
			t.Errorf("%s is not part of the digest", workspace)
		} else {
			seen = append(seen, d)
		}
	}
	for _, inside := range []string{`workspaces { tags_allowlist = ["a"] }`, `workspaces { tags_denylist = ["a"] }`, `tls { verify = false }`, `notification { token = "t" }`} {
		if digest(inside, "") != before {
			t.Errorf("%s is part of the digest", inside)
		}
	}
	if other := load(t, "f.hcl", strings.Replace(cloudDriver(""), `"t"`, `"other"`, 1)+aTask(services)); other.Tasks[0].Digest(other) != before {
		t.Error("the token is part of the digest")
	}
}
