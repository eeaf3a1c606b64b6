package config

import "github.com/terrapulse/terrapulse/internal/config/block"

// The structs of this file are the schema: what may be written in a task file,
// and what is said of it. The loader, the tables of docs/configure.md and the
// JSON Schema in docs/terrapulse.schema.json are made from them; after a change
// here, go generate brings the latter two up to date.
//
// A field is a value, a labelled block, a struct (a block that may be written
// once in a file), or a slice of structs (a block that may be repeated). Its tags:
//
//	key         the name
//	default     what counts where neither a file nor the environment sets it
//	unset       the same in words, where it is not one value
//	env         environment variables, the first that is set counts; * is the prefix
//	prefix      of the environment variables of a nested block
//	required    "true" if there is nothing that could count instead
//	one         the values that are allowed; "any case" after them if case does not count
//	form        of a text, or the bounds of a number: a name of forms, in jsonschema.go
//	doc         what it means; 'this' is code
//	example     a value that a person might write
//	deprecated  what to use instead
//	say         of a key that is refused: why
//	hidden      "true" if nobody looks for it

//go:generate go test -run Current -args -update

type rawConfig struct {
	LogLevel     block.String    `key:"log_level" default:"INFO" one:"TRACE DEBUG INFO WARN ERR any case" doc:"how much is logged"`
	Port         block.Int       `key:"port" default:"8558" form:"port" doc:"of the HTTP API"`
	WorkingDir   block.String    `key:"working_dir" default:"sync-tasks" doc:"folder of the tasks' folders, and of the store unless '-store' names another; instances that share it share the store"`
	ID           block.String    `key:"id" unset:"'cts-<hostname>'" doc:"of this instance in Consul, and in its cluster"`
	Syslog       rawSyslog       `key:"syslog" doc:"logs to syslog too"`
	BufferPeriod rawGlobalBuffer `key:"buffer_period" doc:"how long to wait for more changes before a run"`
	RunTimeout   block.Duration  `key:"run_timeout" default:"1h" form:"delay" doc:"how long a run of a task may take: then Terraform is interrupted, killed a minute later, and the run has failed; '0s': no limit"`
	Consul       rawConsul       `key:"consul" prefix:"CONSUL" doc:"where Consul is"`
	Vault        rawVault        `key:"vault" prefix:"VAULT" doc:"where Vault is"`
	API          rawAPI          `key:"api" doc:"where the HTTP API is served, and who may use it"`
	TLS          rawAPITLS       `key:"tls" doc:"TLS of the HTTP API"`
	Driver       rawDriver       `key:"driver" doc:"how Terraform is run"`

	HighAvailability rawHighAvailability `key:"high_availability" doc:"several instances share the work"`

	Providers labelled     `key:"terraform_provider" doc:"configuration of Terraform providers"`
	Tasks     []rawTask    `key:"task" doc:"what to keep in step"`
	Services  []rawService `key:"service" deprecated:"condition \"services\" in the task" doc:"a service that 'services' of a task may name"`

	JSONSchema block.String `key:"$schema" hidden:"true" doc:"for editors: where the JSON Schema of task files is"`

	Provider    unsupported `key:"provider" say:"provider is an invalid key here, try 'terraform_provider'"`
	License     unsupported `key:"license" say:"license has no effect: nothing here needs one" warn:"true"`
	LicensePath unsupported `key:"license_path" say:"license_path has no effect: nothing here needs a license" warn:"true"`
}

type rawSyslog struct {
	block.Origin
	Enabled  block.Bool   `key:"enabled" unset:"whether another key is set here" doc:"logs go to syslog as well as to standard error"`
	Facility block.String `key:"facility" default:"LOCAL0" one:"KERN USER MAIL DAEMON AUTH SYSLOG LPR NEWS UUCP CRON AUTHPRIV FTP LOCAL0 LOCAL1 LOCAL2 LOCAL3 LOCAL4 LOCAL5 LOCAL6 LOCAL7 any case" doc:"which facility they are of"`
	Name     block.String `key:"name" default:"consul-terraform-sync" doc:"of the program that they are from"`
}

type rawGlobalBuffer struct {
	block.Origin
	Enabled block.Bool     `key:"enabled" default:"true" doc:"'false': run at once"`
	Min     block.Duration `key:"min" default:"5s" form:"delay" doc:"wait until nothing has changed for this long"`
	Max     block.Duration `key:"max" default:"20s" form:"delay" doc:"but not longer than this after the first change; raised to 'min' if it is less"`
}

type rawTaskBuffer struct {
	block.Origin
	Enabled block.Bool     `key:"enabled" doc:"'false': run at once"`
	Min     block.Duration `key:"min" unset:"the global one, or 5s if that is off" form:"delay" doc:"wait until nothing has changed for this long"`
	Max     block.Duration `key:"max" unset:"4 times 'min'" form:"delay" doc:"but not longer than this after the first change; raised to 'min' if it is less"`
}

type rawConsul struct {
	block.Origin
	Address             block.String           `key:"address" env:"CONSUL_HTTP_ADDR" default:"localhost:8500" example:"consul.example.com:8501" doc:"host and port, a URL, or 'unix://' and a path"`
	Token               block.String           `key:"token" env:"CONSUL_TOKEN CONSUL_HTTP_TOKEN" doc:"ACL token; better from the environment than in a file"`
	KVPath              block.String           `key:"kv_path" default:"consul-terraform-sync/" doc:"the default backend keeps its state below it"`
	KVNamespace         block.String           `key:"kv_namespace" doc:"has no effect"`
	Auth                rawAuth                `key:"auth" doc:"HTTP basic authentication"`
	TLS                 rawClientTLS           `key:"tls" doc:"TLS of the connection to Consul"`
	Transport           rawTransport           `key:"transport" doc:"the HTTP connections to Consul"`
	ServiceRegistration rawServiceRegistration `key:"service_registration" doc:"registers this instance in Consul while it runs"`
}

type rawAuth struct {
	block.Origin
	Enabled  block.Bool   `key:"enabled" unset:"whether a name or password is set" doc:"whether they are used"`
	Username block.String `key:"username" doc:"name of the user"`
	Password block.String `key:"password" doc:"password of the user"`
}

type rawClientTLS struct {
	block.Origin
	Enabled    block.Bool   `key:"enabled" unset:"Consul: whether another key is set here (a variable is not enough); Vault: 'true'" doc:"whether the connection is over TLS"`
	CACert     block.String `key:"ca_cert" env:"*_CACERT" doc:"file of CA certificates"`
	CAPath     block.String `key:"ca_path" env:"*_CAPATH" doc:"folder of CA certificates"`
	Cert       block.String `key:"cert" env:"*_CLIENT_CERT" doc:"file of the client's certificate; it may hold the private key too"`
	Key        block.String `key:"key" env:"*_CLIENT_KEY" unset:"the certificate's file" doc:"file of its private key"`
	ServerName block.String `key:"server_name" env:"*_TLS_SERVER_NAME" doc:"name in the server's certificate"`
	Verify     block.Bool   `key:"verify" default:"true" doc:"whether the server's certificate is checked. For Vault, 'VAULT_SKIP_VERIFY' turns it off"`
}

type rawTransport struct {
	block.Origin
	DialKeepAlive       block.Duration `key:"dial_keep_alive" default:"30s" doc:"between keep-alives of TCP"`
	DialTimeout         block.Duration `key:"dial_timeout" default:"30s" doc:"to connect"`
	DisableKeepAlives   block.Bool     `key:"disable_keep_alives" default:"false" doc:"a new connection for every request"`
	IdleConnTimeout     block.Duration `key:"idle_conn_timeout" default:"5s" doc:"until an idle connection is closed"`
	MaxIdleConns        block.Int      `key:"max_idle_conns" default:"0" doc:"idle connections that are kept; 0 is no limit"`
	MaxIdleConnsPerHost block.Int      `key:"max_idle_conns_per_host" default:"100" doc:"the same to one host"`
	TLSHandshakeTimeout block.Duration `key:"tls_handshake_timeout" default:"10s" doc:"to agree on TLS"`
}

type rawServiceRegistration struct {
	block.Origin
	Enabled      block.Bool      `key:"enabled" default:"true" doc:"'false': Consul does not learn of this instance"`
	ServiceName  block.String    `key:"service_name" default:"consul-terraform-sync" doc:"name of the service"`
	Address      block.String    `key:"address" unset:"the agent's" doc:"of the service: host name or IP address"`
	Namespace    block.String    `key:"namespace" unset:"the token's" doc:"Consul Enterprise"`
	DefaultCheck rawDefaultCheck `key:"default_check" doc:"health check of the HTTP API"`
}

type rawDefaultCheck struct {
	block.Origin
	Enabled block.Bool   `key:"enabled" default:"true" doc:"'false': the service has no check"`
	Address block.String `key:"address" unset:"'http://localhost:<port>', or with 'api.bind_address'; with TLS 'https'" example:"http://10.0.0.5:8558" doc:"URL of the HTTP API, as the agent reaches it"`
}

type rawVault struct {
	block.Origin
	Enabled        block.Bool   `key:"enabled" unset:"whether there is an address" doc:"whether templates may read secrets of Vault"`
	Address        block.String `key:"address" env:"VAULT_ADDR" example:"https://vault.example.com:8200" doc:"URL"`
	Namespace      block.String `key:"namespace" env:"VAULT_NAMESPACE" doc:"Vault Enterprise"`
	Token          block.String `key:"token" env:"VAULT_TOKEN" unset:"content of '~/.vault-token'" doc:"better from the environment than in a file"`
	AgentTokenFile block.String `key:"vault_agent_token_file" doc:"its content takes the place of 'token'"`
	RenewToken     block.Bool   `key:"renew_token" env:"VAULT_RENEW_TOKEN" unset:"whether there is a token that is not the agent's" doc:"whether the token is renewed before it expires"`
	UnwrapToken    block.Bool   `key:"unwrap_token" env:"VAULT_UNWRAP_TOKEN" default:"false" doc:"the token is a wrapped one"`
	TLS            rawClientTLS `key:"tls" doc:"TLS of the connection to Vault"`
	Transport      rawTransport `key:"transport" doc:"the HTTP connections to Vault"`
}

type rawAPI struct {
	block.Origin
	BindAddress   block.String  `key:"bind_address" unset:"every interface" example:"127.0.0.1" doc:"IP address that the API listens on"`
	Hosts         block.Strings `key:"hosts" unset:"'localhost', IP addresses and the names of this machine" example:"terrapulse.example.com" doc:"further host names in URLs that the API answers to, against DNS rebinding; '*' is any"`
	Token         block.String  `key:"token" doc:"bearer token that allows everything: a text, or a template such as '{{ env \"TERRAPULSE_TOKEN\" }}'. If it is set, only '/v1/health' is answered without a token"`
	TokenFile     block.String  `key:"token_file" example:"/etc/terrapulse/token" doc:"file that holds the token, in place of 'token'; it is read again for each request"`
	ReadToken     block.String  `key:"read_token" doc:"bearer token that allows requests that change nothing; needs 'token'"`
	ReadTokenFile block.String  `key:"read_token_file" doc:"file that holds it, in place of 'read_token'"`
}

type rawAPITLS struct {
	block.Origin
	Enabled        block.Bool   `key:"enabled" unset:"whether another key is set here" doc:"whether the API is served over TLS; then 'cert' and 'key' are required"`
	Cert           block.String `key:"cert" doc:"file of the certificate"`
	Key            block.String `key:"key" doc:"file of its private key"`
	VerifyIncoming block.Bool   `key:"verify_incoming" default:"false" doc:"clients must have a certificate; needs 'ca_cert' or 'ca_path'"`
	CACert         block.String `key:"ca_cert" doc:"file of CA certificates that those of clients are checked against"`
	CAPath         block.String `key:"ca_path" doc:"folder of such files; has no effect beside 'ca_cert'"`
}

type rawHighAvailability struct {
	block.Origin
	Cluster  rawCluster  `key:"cluster" required:"true" doc:"what the instances have in common"`
	Instance rawInstance `key:"instance" doc:"what is this instance's own, beside its 'id'"`
}

type rawCluster struct {
	block.Origin
	Name    block.String `key:"name" required:"true" form:"cluster" doc:"part of the path of the cluster's state"`
	Storage rawStorage   `key:"storage" doc:"where the cluster keeps its state"`
}

// rawStorage has a block for each kind; there is one.
type rawStorage struct {
	block.Origin `unknown:"unsupported storage type"`
	Consul       rawConsulStorage `key:"consul" doc:"in Consul's KV, the one storage there is"`
}

type rawConsulStorage struct {
	block.Origin
	ParentPath block.String   `key:"parent_path" default:"consul-terraform-sync/" doc:"the state is below it, under the cluster's name"`
	Namespace  block.String   `key:"namespace" unset:"the token's" doc:"Consul Enterprise"`
	SessionTTL block.Duration `key:"session_ttl" default:"15s" form:"delay" doc:"another instance takes over between once and twice this long after the leader has died; 10s to 24h"`
}

type rawInstance struct {
	block.Origin
	Address block.String `key:"address" example:"terrapulse-01.example.com" doc:"host name or IP address that the other instances point people to"`
}

type rawDriver struct {
	block.Origin
	Terraform      rawTerraform `key:"terraform" doc:"the one driver there is"`
	TerraformCloud unsupported  `key:"terraform-cloud" say:"driver \"terraform-cloud\" is not supported: Terraform Cloud belongs to Consul-Terraform-Sync Enterprise; use driver \"terraform\""`
}

type rawTerraform struct {
	block.Origin
	Engine            block.String `key:"engine" default:"terraform" one:"terraform tofu" doc:"what runs the modules, Terraform or OpenTofu"`
	Version           block.String `key:"version" form:"version" example:"1.11.4" doc:"exact version to run: of Terraform 0.13.0 or later, of OpenTofu 1.6.0 or later"`
	Path              block.String `key:"path" unset:"the working directory" doc:"folder that holds the binary, or receives it"`
	Log               block.Bool   `key:"log" default:"false" doc:"Terraform's output in the log, too, a record for each line"`
	PersistLog        block.Bool   `key:"persist_log" default:"false" doc:"Terraform's trace in the task's folder, as terraform.log: 20 MB at most, without the secrets that Terrapulse knows"`
	Backend           labelled     `key:"backend" unset:"'consul', see below" doc:"where the states are; one workspace a task"`
	RequiredProviders freeForm     `key:"required_providers" doc:"source and version of providers, as in Terraform"`
	WorkingDir        unsupported  `key:"working_dir" say:"invalid key working_dir: it was removed from the driver, set working_dir at the top level or in the task"`
}

// rawProvider has the keys of a terraform_provider block that are not the
// provider's own. Loader.provider reads them.
type rawProvider struct {
	Alias      block.String `key:"alias" form:"identifier" example:"west" doc:"a name for this instance of the provider: a task lists it as 'name.alias'"`
	AutoCommit block.Bool   `key:"auto_commit" default:"false" doc:"for panos: commits what was changed, after each run; such a provider belongs to one task"`
	TaskEnv    block.Map    `key:"task_env" doc:"environment variables of Terraform in the runs that use the provider; never written to disk"`
}

type rawTask struct {
	block.Origin
	Name          block.String     `key:"name" required:"true" form:"task" doc:"unique, also without regard to case; letters, digits, '_' and '-', not a digit first, at most 200 bytes. Also the name of the Terraform workspace: renaming a task abandons its state"`
	Description   block.String     `key:"description" doc:"for people; also a comment in the generated root module"`
	Enabled       block.Bool       `key:"enabled" default:"true" doc:"a disabled task keeps what it has made, and does not run"`
	Module        block.String     `key:"module" required:"true" example:"./modules/load-balancer" doc:"a folder ('./m', '../m' or absolute) or any module address of Terraform"`
	Version       block.String     `key:"version" doc:"version constraint of a module from a registry"`
	Providers     block.Strings    `key:"providers" doc:"ids of the providers that the module gets: 'name', or 'name.alias'; one instance of each name. One without a 'terraform_provider' block gets an empty configuration"`
	VariableFiles block.Strings    `key:"variable_files" doc:"'.tfvars' or '.tfvars.json' files for the module's other variables; literal values only; later files win"`
	Variables     block.Map        `key:"variables" doc:"the same in place; each value is Terraform source text, so a string has quotes of its own, or a template for a secret. Files win"`
	Condition     rawCondition     `key:"condition" doc:"what makes the task run, of exactly one of the types below. Without one the task runs once and is never triggered"`
	ModuleInputs  []rawModuleInput `key:"module_input" doc:"further data for the module that triggers nothing"`
	BufferPeriod  rawTaskBuffer    `key:"buffer_period" unset:"the global one" doc:"how long to wait for more changes before a run"`
	RunTimeout    block.Duration   `key:"run_timeout" unset:"the global one" form:"delay" doc:"how long a run may take; '0s': no limit"`
	WorkingDir    block.String     `key:"working_dir" unset:"'<working_dir>/<name>'" doc:"folder of the generated root module; each task has one of its own"`

	Source       block.String     `key:"source" deprecated:"module" doc:"the module"`
	Services     block.Strings    `key:"services" deprecated:"condition \"services\" or module_input \"services\"" doc:"names of services, or ids of 'service' blocks"`
	SourceInputs []rawModuleInput `key:"source_input" deprecated:"module_input" doc:"further data for the module"`

	TerraformVersion        unsupported `key:"terraform_version" say:"terraform_version is an unsupported configuration: it belongs to Consul-Terraform-Sync Enterprise; set version in driver \"terraform\""`
	TerraformCloudWorkspace unsupported `key:"terraform_cloud_workspace" say:"terraform_cloud_workspace is an unsupported configuration: it belongs to Consul-Terraform-Sync Enterprise; remove it"`
}

// rawCondition has a block for each kind; exactly one may be set.
type rawCondition struct {
	block.Origin    `unknown:"unsupported condition type"`
	Services        rawServicesCondition `key:"services" doc:"instances of services and their health"`
	CatalogServices rawCatalogServices   `key:"catalog-services" doc:"which services exist"`
	ConsulKV        rawKVCondition       `key:"consul-kv" doc:"a key, or all keys with a prefix"`
	Schedule        rawSchedule          `key:"schedule" doc:"times"`
}

type rawModuleInput struct {
	block.Origin `unknown:"unsupported module_input type"`
	Services     rawServices `key:"services" doc:"instances, in 'services'"`
	ConsulKV     rawConsulKV `key:"consul-kv" doc:"keys and values, in 'consul_kv'"`
}

type rawServices struct {
	block.Origin
	Names              block.Strings `key:"names" doc:"exact names; either these or 'regexp'"`
	Regexp             block.String  `key:"regexp" example:"^web" doc:"[RE2](https://golang.org/s/re2syntax), matches anywhere in a name: '^web' begins with web. '\"\"' is every service"`
	Datacenter         block.String  `key:"datacenter" unset:"the agent's" doc:"datacenter that is asked"`
	Namespace          block.String  `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
	Filter             block.String  `key:"filter" example:"\"v1\" in Service.Tags" doc:"[filter](https://developer.hashicorp.com/consul/api-docs/features/filtering) on the instances. Without 'Checks.Status' in it only passing instances are selected"`
	CTSUserDefinedMeta block.Map     `key:"cts_user_defined_meta" doc:"copied to every instance, for the module"`
}

type rawServicesCondition struct {
	rawServices
	UseAsModuleInput  block.Bool `key:"use_as_module_input" default:"true" doc:"'false': triggers only, the module gets no services"`
	SourceIncludesVar block.Bool `key:"source_includes_var" deprecated:"use_as_module_input" doc:"whether the module gets the data"`
}

type rawCatalogServices struct {
	block.Origin
	Regexp            block.String `key:"regexp" required:"true" form:"any" example:"^web" doc:"as of services, on the services' names; '\".*\"' is every service"`
	Datacenter        block.String `key:"datacenter" unset:"the agent's" doc:"datacenter that is asked"`
	Namespace         block.String `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
	NodeMeta          block.Map    `key:"node_meta" doc:"only services on nodes with this metadata"`
	UseAsModuleInput  block.Bool   `key:"use_as_module_input" default:"true" doc:"'false': triggers only"`
	SourceIncludesVar block.Bool   `key:"source_includes_var" deprecated:"use_as_module_input" doc:"whether the module gets the data"`
}

type rawConsulKV struct {
	block.Origin
	Path       block.String `key:"path" required:"true" doc:"the key; with 'recurse' the beginning of the keys ('cfg' also selects 'cfg2'). A leading '/' does not count"`
	Recurse    block.Bool   `key:"recurse" default:"false" doc:"all keys that begin with 'path'"`
	Datacenter block.String `key:"datacenter" unset:"the agent's" doc:"datacenter that is asked"`
	Namespace  block.String `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
}

type rawKVCondition struct {
	rawConsulKV
	UseAsModuleInput  block.Bool `key:"use_as_module_input" default:"true" doc:"'false': triggers only"`
	SourceIncludesVar block.Bool `key:"source_includes_var" deprecated:"use_as_module_input" doc:"whether the module gets the data"`
}

type rawSchedule struct {
	block.Origin
	Cron block.String `key:"cron" required:"true" example:"0 3 * * Mon-Fri" doc:"five fields, six with a year at the end, or seven with seconds first as well; also '@hourly' and the like ([cronexpr](https://github.com/hashicorp/cronexpr))"`
}

type rawService struct {
	block.Origin
	Name               block.String `key:"name" required:"true" doc:"'names'"`
	ID                 block.String `key:"id" unset:"the name" doc:"what 'services' of a task calls it"`
	Description        block.String `key:"description" doc:"a comment"`
	Datacenter         block.String `key:"datacenter" doc:"'datacenter'"`
	Namespace          block.String `key:"namespace" doc:"'namespace'"`
	Filter             block.String `key:"filter" doc:"'filter'"`
	CTSUserDefinedMeta block.Map    `key:"cts_user_defined_meta" doc:"'cts_user_defined_meta'"`

	Tag unsupported `key:"tag" say:"invalid key tag: it was removed, use filter with \"<tag>\" in Service.Tags"`
}
