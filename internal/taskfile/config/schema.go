package config

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

// The structs of this file are the schema: the keys of a task file and their
// documentation. The loader uses them. The tables of docs/reference and
// docs/terrapulse.schema.json are generated from them with go generate.
//
// A field is a value (of package block, or of a plain type, of which rawOf finds what a
// file says), a labelled block, a struct (a block that may be written
// once in a file), or a slice of structs (a block that may be repeated; it has a label
// if the struct embeds block.Labelled). Its tags:
//
//	key         the name
//	default     the value if neither a file nor the environment sets the key
//	unset       the same in words, if it is not one value
//	env         environment variables, in order of precedence; * is the prefix
//	prefix      prefix of the environment variables of a nested block
//	required    "true" if the key has no default
//	one         the allowed values; "any case" after them if case is ignored
//	path        "true" if a relative path is relative to the folder of the process
//	form        format of a string or bounds of a number: a name of forms, in jsonschema.go
//	doc         the meaning; 'this' is code
//	example     a typical value
//	deprecated  what to use instead
//	short       the key of a block that a value in place of the block sets
//	say         why the key is refused
//	empty       "true" if an empty string is a value, or a mistake; else the key is then not set
//	secret      what of the value may be a secret: a name of shown, in secret.go
//	hidden      "true" if messages do not suggest the key
//
// The keys of an embedded struct with the tag unset have no default of their own.

//go:generate go test -run Current -args -update

type rawConfig struct {
	LogLevel       string        `key:"log_level" default:"INFO" one:"TRACE DEBUG INFO WARN ERR any case" doc:"minimum log level"`
	Port           int           `key:"port" default:"8558" form:"port" doc:"port of the HTTP API"`
	WorkingDir     string        `key:"working_dir" default:"sync-tasks" doc:"folder for the tasks' folders and, unless '-store' is set, for the store; instances with the same folder share the store"`
	ID             string        `key:"id" unset:"'cts-<hostname>'" doc:"id of this instance in Consul and in its cluster"`
	Syslog         Syslog        `key:"syslog" doc:"log to syslog, too"`
	BufferPeriod   BufferPeriod  `key:"buffer_period" doc:"how long to wait for more changes before a run"`
	RunTimeout     time.Duration `key:"run_timeout" default:"1h" form:"delay" doc:"time limit of a run. When it is over, Terraform is interrupted, killed a minute later, and the run fails. It starts again when a waiting run continues, because this run plans again; '0s': no limit"`
	AuditRetention time.Duration `key:"audit_retention" default:"8760h" form:"delay" doc:"how long entries of the audit record are kept"`
	KeepRemoved    time.Duration `key:"keep_removed" default:"720h" form:"delay" doc:"how long the records of a removed task are kept"`
	rawRules
	Consul Consul    `key:"consul" prefix:"CONSUL" doc:"connection to Consul"`
	Vault  Vault     `key:"vault" prefix:"VAULT" doc:"connection to Vault"`
	API    rawAPI    `key:"api" doc:"address of the HTTP API, and who may use it"`
	TLS    APITLS    `key:"tls" doc:"TLS of the HTTP API"`
	Driver rawDriver `key:"driver" doc:"how Terraform is run"`

	HighAvailability HighAvailability `key:"high_availability" doc:"several instances form a cluster"`
	Nomad            Nomad            `key:"nomad" prefix:"NOMAD" doc:"the leader of a cluster starts runs as Nomad jobs"`

	Providers labelled        `key:"terraform_provider" doc:"configuration of Terraform providers"`
	Tasks     []rawTask       `key:"task" doc:"a module of Terraform, and the data in Consul for it"`
	Notify    []notify.Notify `key:"notify" doc:"where events are sent"`
	Services  []rawService    `key:"service" deprecated:"condition \"services\" in the task" doc:"a service that 'services' of a task may name"`

	JSONSchema string `key:"$schema" hidden:"true" doc:"for editors: location of the JSON Schema of task files"`

	Provider    unsupported `key:"provider" say:"provider is an invalid key here, try 'terraform_provider'"`
	License     unsupported `key:"license" say:"license has no effect: nothing here needs one" warn:"true"`
	LicensePath unsupported `key:"license_path" say:"license_path has no effect: nothing here needs a license" warn:"true"`
}

// Syslog is the syslog block.
type Syslog struct {
	Enabled  bool   `key:"enabled" unset:"'true' if another key is set here" doc:"whether logs go to syslog as well as to standard error"`
	Facility string `key:"facility" default:"LOCAL0" one:"KERN USER MAIL DAEMON AUTH SYSLOG LPR NEWS UUCP CRON AUTHPRIV FTP LOCAL0 LOCAL1 LOCAL2 LOCAL3 LOCAL4 LOCAL5 LOCAL6 LOCAL7 any case" doc:"facility of the log messages"`
	Name     string `key:"name" default:"consul-terraform-sync" doc:"program name in the log messages"`
}

// BufferPeriod delays a triggered run until changes have settled.
type BufferPeriod struct {
	Enabled bool          `key:"enabled" default:"true" doc:"'false': run without delay"`
	Min     time.Duration `key:"min" default:"5s" form:"delay" doc:"wait until nothing has changed for this long"`
	Max     time.Duration `key:"max" default:"20s" form:"delay" doc:"longest wait after the first change; raised to 'min' if it is less"`
}

type rawTaskBuffer struct {
	block.Origin
	Enabled block.Bool     `key:"enabled" doc:"'false': run without delay"`
	Min     block.Duration `key:"min" unset:"the global one, or 5s if that is off" form:"delay" doc:"wait until nothing has changed for this long"`
	Max     block.Duration `key:"max" unset:"4 times 'min'" form:"delay" doc:"longest wait after the first change; raised to 'min' if it is less"`
}

// Consul is the consul block with its environment fallbacks applied.
type Consul struct {
	Namespace           string              // CONSUL_NAMESPACE: the default of every query that names none
	Partition           string              // CONSUL_PARTITION
	Address             string              `key:"address" env:"CONSUL_HTTP_ADDR" default:"localhost:8500" example:"consul.example.com:8501" doc:"host and port, a URL, or 'unix://' and a path"`
	Token               string              `key:"token" secret:"value" env:"CONSUL_TOKEN CONSUL_HTTP_TOKEN" doc:"ACL token; use the environment instead of a file"`
	KVPath              string              `key:"kv_path" default:"consul-terraform-sync/" doc:"the default backend keeps its state below this path"`
	KVNamespace         string              `key:"kv_namespace" doc:"has no effect"`
	Auth                BasicAuth           `key:"auth" doc:"HTTP basic authentication"`
	TLS                 ClientTLS           `key:"tls" doc:"TLS of the connection to Consul"`
	Transport           Transport           `key:"transport" doc:"the HTTP connections to Consul"`
	ServiceRegistration ServiceRegistration `key:"service_registration" doc:"registers this instance in Consul while it runs"`
}

// BasicAuth is HTTP basic authentication.
type BasicAuth struct {
	Enabled  bool   `key:"enabled" unset:"'true' if a name or password is set" doc:"whether name and password are used"`
	Username string `key:"username" doc:"name of the user"`
	Password string `key:"password" secret:"value" doc:"password of the user"`
}

// ClientTLS is how a client of Consul, Vault, Nomad or HCP Terraform speaks TLS. Paths are absolute.
type ClientTLS struct {
	Enabled    bool   `key:"enabled" unset:"Consul, Nomad and HCP Terraform: 'true' if another key is set here (a variable is not sufficient); Vault: 'true'" doc:"whether the connection uses TLS"`
	CACert     string `key:"ca_cert" path:"true" env:"*_CACERT" doc:"file of CA certificates"`
	CAPath     string `key:"ca_path" path:"true" env:"*_CAPATH" doc:"folder of CA certificates"`
	Cert       string `key:"cert" path:"true" env:"*_CLIENT_CERT" doc:"file of the client certificate; it may contain the private key, too"`
	Key        string `key:"key" path:"true" env:"*_CLIENT_KEY" unset:"the certificate's file" doc:"file of the private key"`
	ServerName string `key:"server_name" env:"*_TLS_SERVER_NAME" doc:"name in the server's certificate"`
	Verify     bool   `key:"verify" default:"true" doc:"whether the server's certificate is verified. For Vault and Nomad, 'VAULT_SKIP_VERIFY' and 'NOMAD_SKIP_VERIFY' disable this"`
}

// Transport tunes the HTTP connections to Consul or Vault.
type Transport struct {
	DialKeepAlive       time.Duration `key:"dial_keep_alive" default:"30s" doc:"time between TCP keep-alives"`
	DialTimeout         time.Duration `key:"dial_timeout" default:"30s" doc:"time limit to connect"`
	DisableKeepAlives   bool          `key:"disable_keep_alives" default:"false" doc:"a new connection for every request"`
	IdleConnTimeout     time.Duration `key:"idle_conn_timeout" default:"5s" doc:"time until an idle connection is closed"`
	MaxIdleConns        int           `key:"max_idle_conns" default:"0" doc:"maximum number of idle connections; 0: no limit"`
	MaxIdleConnsPerHost int           `key:"max_idle_conns_per_host" default:"100" doc:"maximum number of idle connections to one host"`
	TLSHandshakeTimeout time.Duration `key:"tls_handshake_timeout" default:"10s" doc:"time limit for the TLS handshake"`
}

// ServiceRegistration is how the program registers itself in Consul.
type ServiceRegistration struct {
	Enabled      bool         `key:"enabled" default:"true" doc:"'false': do not register this instance in Consul"`
	ServiceName  string       `key:"service_name" default:"consul-terraform-sync" doc:"name of the service"`
	Address      string       `key:"address" unset:"the agent's" doc:"address of the service: host name or IP address"`
	Namespace    string       `key:"namespace" unset:"the token's" doc:"Consul Enterprise"`
	DefaultCheck DefaultCheck `key:"default_check" doc:"health check of the HTTP API"`
}

// DefaultCheck is the health check of the self-registration.
type DefaultCheck struct {
	Enabled bool   `key:"enabled" default:"true" doc:"'false': the service has no check"`
	Address string `key:"address" unset:"'http://localhost:<port>', or with 'api.bind_address'; with TLS 'https'" example:"http://10.0.0.5:8558" doc:"URL of the HTTP API at which the agent reaches it"`
}

// Vault is the vault block with its environment fallbacks applied.
type Vault struct {
	Enabled        bool      `key:"enabled" unset:"'true' if an address is set" doc:"whether templates may read secrets from Vault"`
	Address        string    `key:"address" env:"VAULT_ADDR" example:"https://vault.example.com:8200" doc:"URL"`
	Namespace      string    `key:"namespace" env:"VAULT_NAMESPACE" doc:"Vault Enterprise"`
	Token          string    `key:"token" secret:"value" env:"VAULT_TOKEN" unset:"content of '~/.vault-token'" doc:"use the environment instead of a file"`
	AgentTokenFile string    `key:"vault_agent_token_file" path:"true" doc:"file with the token, instead of 'token'"`
	RenewToken     bool      `key:"renew_token" env:"VAULT_RENEW_TOKEN" unset:"'true' if there is a token that is not Vault Agent's" doc:"whether the token is renewed before it expires"`
	UnwrapToken    bool      `key:"unwrap_token" env:"VAULT_UNWRAP_TOKEN" default:"false" doc:"whether the token is a wrapping token"`
	TLS            ClientTLS `key:"tls" doc:"TLS of the connection to Vault"`
	Transport      Transport `key:"transport" doc:"the HTTP connections to Vault"`
}

type rawAPI struct {
	block.Origin
	BindAddress   block.String  `key:"bind_address" unset:"every interface" example:"127.0.0.1" doc:"IP address that the API listens on"`
	Hosts         block.Strings `key:"hosts" unset:"'localhost', IP addresses and the names of this machine" example:"terrapulse.example.com" doc:"further host names that the API accepts in URLs, as a protection against DNS rebinding; '*' accepts any"`
	URL           block.String  `key:"url" unset:"events have no links" example:"https://terrapulse.example.com" doc:"address of the pages for people, without a path: events link to it, and 'status -http-addr' prints it. The API accepts its host name. Works in AWS, too"`
	Token         block.String  `key:"token" empty:"true" secret:"value" doc:"bearer token that allows everything: plain text, or a template such as '{{ env \"TERRAPULSE_TOKEN\" }}'. If it is set, only '/v1/health' works without a token"`
	TokenFile     block.String  `key:"token_file" empty:"true" example:"/etc/terrapulse/token" doc:"file with the token, instead of 'token'; it is read again for each request"`
	ReadToken     block.String  `key:"read_token" empty:"true" secret:"value" doc:"bearer token that allows requests that change nothing; needs 'token'"`
	ReadTokenFile block.String  `key:"read_token_file" empty:"true" doc:"file with this token, instead of 'read_token'"`
	Access        rawAccess     `key:"access" doc:"who may do what, for all tasks or for some. Works in AWS, too"`
}

// APITLS is the tls block: TLS of the HTTP API. Paths are absolute.
type APITLS struct {
	Enabled        bool   `key:"enabled" unset:"'true' if another key is set here" doc:"whether the API uses TLS; 'cert' and 'key' are then required"`
	Cert           string `key:"cert" path:"true" doc:"file of the certificate"`
	Key            string `key:"key" path:"true" doc:"file of the private key"`
	VerifyIncoming bool   `key:"verify_incoming" default:"false" doc:"whether clients must have a certificate; needs 'ca_cert' or 'ca_path'"`
	CACert         string `key:"ca_cert" path:"true" doc:"file of CA certificates for the clients' certificates"`
	CAPath         string `key:"ca_path" path:"true" doc:"folder of CA certificates; has no effect if 'ca_cert' is set"`
}

// HighAvailability is the high_availability block.
type HighAvailability struct {
	Cluster  Cluster  `key:"cluster" required:"true" doc:"settings that are the same on all instances"`
	Instance Instance `key:"instance" doc:"settings of this instance, in addition to its 'id'"`
}

// Cluster is what all instances of a cluster have in common.
type Cluster struct {
	Name    string         `key:"name" required:"true" form:"cluster" doc:"part of the path of the cluster's state"`
	Storage ClusterStorage `key:"storage" doc:"where the cluster keeps its state"`
}

// ClusterStorage has a block for each storage type.
type ClusterStorage struct {
	Consul ConsulStorage `key:"consul" unknown:"unsupported storage type" doc:"in Consul's KV, the only storage type"`
}

// ConsulStorage is where in Consul's KV a cluster keeps its state.
type ConsulStorage struct {
	ParentPath string        `key:"parent_path" default:"consul-terraform-sync/" doc:"the state is below this path, under the cluster's name"`
	Namespace  string        `key:"namespace" unset:"the token's" doc:"Consul Enterprise"`
	SessionTTL time.Duration `key:"session_ttl" default:"15s" form:"delay" doc:"another instance takes over one to two times this duration after the leader died; 10s to 24h"`
}

// Instance is what differs between instances of a cluster, beside the id.
type Instance struct {
	Address string `key:"address" example:"terrapulse-01.example.com" doc:"host name or IP address of this instance that the cluster shows to people"`
}

// Nomad is the nomad block with its environment fallbacks applied.
type Nomad struct {
	Job         string    `key:"job" required:"true" example:"terrapulse-runner" doc:"id of the parameterized job that the leader dispatches for each launch"`
	MaxLaunches int       `key:"max_launches" default:"20" form:"positive" doc:"maximum number of current launches; each has up to 25 runs, and further runs wait"`
	Address     string    `key:"address" env:"NOMAD_ADDR" default:"http://127.0.0.1:4646" example:"https://nomad.example.com:4646" doc:"URL of a Nomad agent, host and port, or 'unix://' and a path"`
	Token       string    `key:"token" secret:"value" env:"NOMAD_TOKEN" doc:"ACL token; use the environment instead of a file"`
	TokenFile   string    `key:"token_file" path:"true" example:"/run/secrets/nomad-token" doc:"file with the token, instead of 'token'; it is read again for each request"`
	Namespace   string    `key:"namespace" env:"NOMAD_NAMESPACE" default:"default" doc:"namespace of the job"`
	Region      string    `key:"region" env:"NOMAD_REGION" unset:"the agent's" doc:"region of the job"`
	TLS         ClientTLS `key:"tls" doc:"TLS of the connection to Nomad"`
}

type rawDriver struct {
	block.Origin
	Terraform rawTerraform `key:"terraform" doc:"runs Terraform or OpenTofu itself; the default"`
	driverBlocks
}

// rawCloud is the driver "terraform-cloud" block.
type rawCloud struct {
	block.Origin
	Hostname          block.String         `key:"hostname" env:"TFC_HOSTNAME" default:"https://app.terraform.io" example:"https://tfe.example.com" doc:"URL of HCP Terraform or Terraform Enterprise"`
	Organization      block.String         `key:"organization" env:"TFC_ORGANIZATION" required:"true" doc:"the organization of the workspaces"`
	Token             block.String         `key:"token" secret:"value" env:"TFC_TOKEN" required:"true" doc:"API token of a team that may manage workspaces: better from the environment, or a template such as '{{ with secret \"kv/hcp\" }}{{ .Data.token }}{{ end }}'"`
	Workspaces        rawCloudWorkspaces   `key:"workspaces" doc:"the workspaces of the tasks"`
	RequiredProviders freeForm             `key:"required_providers" doc:"source and version of providers, as in Terraform"`
	TLS               ClientTLS            `key:"tls" doc:"TLS of the connection, for Terraform Enterprise with a private CA"`
	Notification      rawCloudNotification `key:"notification" doc:"lets HCP Terraform notify Terrapulse when a run changes"`

	WorkspacePrefix block.String `key:"workspace_prefix" deprecated:"prefix in workspaces, with a dash at its end" doc:"workspaces have the name '<workspace_prefix>-<task>'"`
}

// rawCloudWorkspaces is what all workspaces have in common.
type rawCloudWorkspaces struct {
	Prefix        block.String  `key:"prefix" example:"network-" doc:"the name of a workspace is the prefix and the task's name"`
	Tags          block.Strings `key:"tags" doc:"tags that each workspace gets in addition to 'source:cts'"`
	TagsAllowlist block.Strings `key:"tags_allowlist" doc:"an existing workspace is used only if it has one of these tags; empty: any"`
	TagsDenylist  block.Strings `key:"tags_denylist" doc:"a workspace with one of these tags is not used, even if 'tags_allowlist' allows it"`
}

// rawCloudNotification is the notification that HCP Terraform sends when a run changes.
type rawCloudNotification struct {
	block.Origin
	URL   block.String `key:"url" example:"https://terrapulse.example.com/v1/notifications/terraform-cloud" doc:"URL at which HCP Terraform can reach Terrapulse, for a notification of each workspace. Without it, a person may add one"`
	Token block.String `key:"token" secret:"value" doc:"key of the signature of notifications: plain text, or a template. Without it, notifications are refused"`
}

// rawCloudWorkspace is the workspace of one task.
type rawCloudWorkspace struct {
	block.Origin
	ExecutionMode    block.String `key:"execution_mode" unset:"that of the workspace; 'remote' if it is created" one:"remote agent" doc:"where the runs are executed: in HCP Terraform or by an agent of the organization"`
	AgentPoolID      block.String `key:"agent_pool_id" example:"apool-MxkrTgLnQxYMyNEo" doc:"id of the agent pool; with 'execution_mode = \"agent\"', this or the name is required"`
	AgentPoolName    block.String `key:"agent_pool_name" doc:"name of the agent pool; without effect if the id is set"`
	TerraformVersion block.String `key:"terraform_version" form:"version" example:"1.16.4" unset:"the newest one that the organization has when the workspace is created" doc:"exact version of Terraform"`
}

type rawTerraform struct {
	block.Origin
	Engine            string      `key:"engine" default:"terraform" one:"terraform tofu" doc:"program that runs the modules, Terraform or OpenTofu"`
	Version           string      `key:"version" form:"version" example:"1.16.4" doc:"exact version to run: Terraform 0.13.0 or later, OpenTofu 1.6.0 or later"`
	Path              string      `key:"path" path:"true" unset:"the working directory" doc:"folder of the binary; Terrapulse installs it there if it is missing"`
	Log               bool        `key:"log" default:"false" doc:"also log Terraform's output, one record per line"`
	PersistLog        bool        `key:"persist_log" default:"false" doc:"write Terraform's trace to terraform.log in the task's folder, to find a fault: at most 20 MB, without the secrets that Terrapulse knows"`
	Backend           labelled    `key:"backend" unset:"'consul', see below" doc:"where Terraform keeps its states; one workspace per task"`
	RequiredProviders freeForm    `key:"required_providers" doc:"source and version of providers, as in Terraform"`
	WorkingDir        unsupported `key:"working_dir" say:"invalid key working_dir: it was removed from the driver, set working_dir at the top level or in the task"`
}

// rawProvider has the keys of a terraform_provider block that are not the
// provider's own. Loader.provider reads them.
type rawProvider struct {
	Alias      block.String `key:"alias" form:"identifier" example:"west" doc:"a name for this instance of the provider: a task lists it as 'name.alias'"`
	AutoCommit block.Bool   `key:"auto_commit" default:"false" doc:"for panos: commit the changes after each run; such a provider belongs to one task"`
	TaskEnv    block.Map    `key:"task_env" secret:"value" doc:"environment variables for Terraform in runs that use the provider; never written to disk"`
}

type rawTask struct {
	block.Origin
	Name          block.String     `key:"name" required:"true" form:"task" doc:"unique, ignoring case; letters, digits, '_' and '-', not beginning with a digit, at most 200 bytes. Also the name of the Terraform workspace: before you rename a task, see 'moved_from'"`
	Description   block.String     `key:"description" doc:"description for people; also a comment in the generated root module"`
	Labels        block.Map        `key:"labels" form:"labels" doc:"labels with which people filter, group and approve several tasks, and by which roles are granted; at most 16. Keys and values have 1 to 63 letters, digits, '.', '_' and '-'. Changing a label starts no run"`
	Enabled       block.Bool       `key:"enabled" default:"true" doc:"'false': the task does not run, and its infrastructure is kept"`
	Module        block.String     `key:"module" required:"true" example:"./modules/load-balancer" doc:"a folder ('./m', '../m' or absolute) or any module address of Terraform"`
	Version       block.String     `key:"version" doc:"version constraint of a module from a registry"`
	Providers     block.Strings    `key:"providers" doc:"ids of the module's providers: 'name' or 'name.alias', only one for each name. 'name' is also the only block of a provider, if that has an alias. A provider without a 'terraform_provider' block gets an empty configuration"`
	VariableFiles block.Strings    `key:"variable_files" doc:"'.tfvars' or '.tfvars.json' files for the module's other variables; literal values only; later files override earlier ones"`
	Variables     block.Map        `key:"variables" secret:"source" doc:"values for the module's other variables. Each value is Terraform source text, in which a string has its own quotes, or a template for a secret. In YAML, plain text is a string, as in 'site: muc'. 'variable_files' override them"`
	Condition     rawCondition     `key:"condition" doc:"what triggers the task: exactly one of the types below. Without a condition, the services of 'module_input' trigger it; without these, too, the task runs once and is never triggered"`
	ModuleInputs  []rawModuleInput `key:"module_input" doc:"further data for the module, which does not trigger the task if it has a condition"`
	BufferPeriod  rawTaskBuffer    `key:"buffer_period" unset:"the global one" doc:"how long to wait for more changes before a run"`
	RunTimeout    block.Duration   `key:"run_timeout" unset:"the global one" form:"delay" doc:"time limit of a run; '0s': no limit"`
	AWSRole       block.String     `key:"aws_role" form:"role" example:"arn:aws:iam::123456789012:role/load-balancer" doc:"ARN of the IAM role that Terraform and its providers assume for this task, in place of Terrapulse's credentials for AWS"`
	MovedFrom     block.Strings    `key:"moved_from" form:"tasks" doc:"earlier names of the task: its Terraform state is moved, so that nothing is created again. Several names are for deployments that have skipped a rename"`
	After         block.Strings    `key:"after" form:"order" example:"firewall" doc:"names of tasks, or patterns with '*' and '?': this task runs only while everything of these tasks is applied, see order.md"`
	AfterTimeout  block.Duration   `key:"after_timeout" unset:"no limit" form:"delay" example:"30m" doc:"if the task waits longer than this for the tasks in 'after', an event reports it; the task still waits"`
	WorkingDir    block.String     `key:"working_dir" unset:"'<working_dir>/<name>'" doc:"folder of the generated root module; each task needs its own"`
	rawRules      `unset:"the global value"`

	TerraformCloudWorkspace rawCloudWorkspace `key:"terraform_cloud_workspace" doc:"the workspace of the task; only with driver \"terraform-cloud\""`

	Source       block.String     `key:"source" deprecated:"module" doc:"the module"`
	Services     block.Strings    `key:"services" deprecated:"condition \"services\" or module_input \"services\"" doc:"names of services, or ids of 'service' blocks"`
	SourceInputs []rawModuleInput `key:"source_input" deprecated:"module_input" doc:"further data for the module"`

	TerraformVersion block.String `key:"terraform_version" deprecated:"terraform_version in terraform_cloud_workspace" doc:"exact version of Terraform"`
}

// rawCondition has a block for each kind of condition; exactly one may be set.
type rawCondition struct {
	block.Origin `unknown:"unsupported condition type"`
	conditionBlocks
}

// rawModuleInput has a block for each kind of module input.
type rawModuleInput struct {
	block.Origin `unknown:"unsupported module_input type"`
	inputBlocks
}

type rawService struct {
	block.Origin
	Name               block.String `key:"name" required:"true" doc:"'names'"`
	ID                 block.String `key:"id" unset:"the name" doc:"name of the service in 'services' of a task"`
	Description        block.String `key:"description" doc:"a comment"`
	Datacenter         block.String `key:"datacenter" doc:"'datacenter'"`
	Namespace          block.String `key:"namespace" doc:"'namespace'"`
	Filter             block.String `key:"filter" doc:"'filter'"`
	CTSUserDefinedMeta block.Map    `key:"cts_user_defined_meta" doc:"'cts_user_defined_meta'"`

	Tag unsupported `key:"tag" say:"invalid key tag: it was removed, use filter with \"<tag>\" in Service.Tags"`
}
