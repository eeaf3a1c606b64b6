package config

import "time"

// The structs of this file are the schema: what may be written in a task file,
// with the default and the environment variables that stand in for a key that
// is not. docs/configure.md is checked against them.
//
// A field is a value, a labelled block, a struct (a block that may be written
// once in a file), or a slice of structs (a block that may be repeated).

type (
	rawString   = value[string]
	rawBool     = value[bool]
	rawInt      = value[int]
	rawDuration = value[time.Duration]
	rawStrings  = value[[]string]
	rawMap      = value[map[string]string]
)

type rawConfig struct {
	LogLevel     rawString       `key:"log_level" default:"INFO"`
	Port         rawInt          `key:"port" default:"8558"`
	WorkingDir   rawString       `key:"working_dir" default:"sync-tasks"`
	ID           rawString       `key:"id"`
	Syslog       rawSyslog       `key:"syslog"`
	BufferPeriod rawGlobalBuffer `key:"buffer_period"`
	Consul       rawConsul       `key:"consul" prefix:"CONSUL"`
	Vault        rawVault        `key:"vault" prefix:"VAULT"`
	TLS          rawAPITLS       `key:"tls"`
	Driver       rawDriver       `key:"driver"`

	HighAvailability rawHighAvailability `key:"high_availability"`

	Providers labelled     `key:"terraform_provider"`
	Tasks     []rawTask    `key:"task"`
	Services  []rawService `key:"service" deprecated:"condition \"services\" in the task"`

	Provider    unsupported `key:"provider" say:"provider is an invalid key here, try 'terraform_provider'"`
	License     unsupported `key:"license" say:"license is not supported: it belongs to Consul-Terraform-Sync Enterprise, and nothing here needs one; remove it"`
	LicensePath unsupported `key:"license_path" say:"license_path is not supported: it belongs to Consul-Terraform-Sync Enterprise, and nothing here needs one; remove it"`
}

type rawSyslog struct {
	origin
	Enabled  rawBool   `key:"enabled"`
	Facility rawString `key:"facility" default:"LOCAL0"`
	Name     rawString `key:"name" default:"consul-terraform-sync"`
}

type rawGlobalBuffer struct {
	origin
	Enabled rawBool     `key:"enabled" default:"true"`
	Min     rawDuration `key:"min" default:"5s"`
	Max     rawDuration `key:"max" default:"20s"`
}

type rawTaskBuffer struct {
	origin
	Enabled rawBool     `key:"enabled"`
	Min     rawDuration `key:"min"`
	Max     rawDuration `key:"max"`
}

type rawConsul struct {
	origin
	Address             rawString              `key:"address" env:"CONSUL_HTTP_ADDR" default:"localhost:8500"`
	Token               rawString              `key:"token" env:"CONSUL_TOKEN CONSUL_HTTP_TOKEN"`
	KVPath              rawString              `key:"kv_path" default:"consul-terraform-sync/"`
	KVNamespace         rawString              `key:"kv_namespace"`
	Auth                rawAuth                `key:"auth"`
	TLS                 rawClientTLS           `key:"tls"`
	Transport           rawTransport           `key:"transport"`
	ServiceRegistration rawServiceRegistration `key:"service_registration"`
}

type rawAuth struct {
	origin
	Enabled  rawBool   `key:"enabled"`
	Username rawString `key:"username"`
	Password rawString `key:"password"`
}

type rawClientTLS struct {
	origin
	Enabled    rawBool   `key:"enabled"`
	CACert     rawString `key:"ca_cert" env:"*_CACERT"`
	CAPath     rawString `key:"ca_path" env:"*_CAPATH"`
	Cert       rawString `key:"cert" env:"*_CLIENT_CERT"`
	Key        rawString `key:"key" env:"*_CLIENT_KEY"`
	ServerName rawString `key:"server_name" env:"*_TLS_SERVER_NAME"`
	Verify     rawBool   `key:"verify" default:"true"`
}

type rawTransport struct {
	origin
	DialKeepAlive       rawDuration `key:"dial_keep_alive" default:"30s"`
	DialTimeout         rawDuration `key:"dial_timeout" default:"30s"`
	DisableKeepAlives   rawBool     `key:"disable_keep_alives" default:"false"`
	IdleConnTimeout     rawDuration `key:"idle_conn_timeout" default:"5s"`
	MaxIdleConns        rawInt      `key:"max_idle_conns" default:"0"`
	MaxIdleConnsPerHost rawInt      `key:"max_idle_conns_per_host" default:"100"`
	TLSHandshakeTimeout rawDuration `key:"tls_handshake_timeout" default:"10s"`
}

type rawServiceRegistration struct {
	origin
	Enabled      rawBool         `key:"enabled" default:"true"`
	ServiceName  rawString       `key:"service_name" default:"consul-terraform-sync"`
	Address      rawString       `key:"address"`
	Namespace    rawString       `key:"namespace"`
	DefaultCheck rawDefaultCheck `key:"default_check"`
}

type rawDefaultCheck struct {
	origin
	Enabled rawBool   `key:"enabled" default:"true"`
	Address rawString `key:"address"`
}

type rawVault struct {
	origin
	Enabled        rawBool      `key:"enabled"`
	Address        rawString    `key:"address" env:"VAULT_ADDR"`
	Namespace      rawString    `key:"namespace" env:"VAULT_NAMESPACE"`
	Token          rawString    `key:"token" env:"VAULT_TOKEN"`
	AgentTokenFile rawString    `key:"vault_agent_token_file"`
	RenewToken     rawBool      `key:"renew_token" env:"VAULT_RENEW_TOKEN"`
	UnwrapToken    rawBool      `key:"unwrap_token" env:"VAULT_UNWRAP_TOKEN" default:"false"`
	TLS            rawClientTLS `key:"tls"`
	Transport      rawTransport `key:"transport"`
}

type rawAPITLS struct {
	origin
	Enabled        rawBool   `key:"enabled"`
	Cert           rawString `key:"cert"`
	Key            rawString `key:"key"`
	VerifyIncoming rawBool   `key:"verify_incoming" default:"false"`
	CACert         rawString `key:"ca_cert"`
	CAPath         rawString `key:"ca_path"`
}

type rawHighAvailability struct {
	origin
	Cluster  rawCluster  `key:"cluster"`
	Instance rawInstance `key:"instance"`
}

type rawCluster struct {
	origin
	Name    rawString  `key:"name"`
	Storage rawStorage `key:"storage"`
}

// rawStorage has a block for each kind; there is one.
type rawStorage struct {
	origin `unknown:"unsupported storage type"`
	Consul rawConsulStorage `key:"consul"`
}

type rawConsulStorage struct {
	origin
	ParentPath rawString   `key:"parent_path" default:"consul-terraform-sync/"`
	Namespace  rawString   `key:"namespace"`
	SessionTTL rawDuration `key:"session_ttl" default:"15s"`
}

type rawInstance struct {
	origin
	Address rawString `key:"address"`
}

type rawDriver struct {
	origin
	Terraform      rawTerraform `key:"terraform"`
	TerraformCloud unsupported  `key:"terraform-cloud" say:"driver \"terraform-cloud\" is not supported: Terraform Cloud belongs to Consul-Terraform-Sync Enterprise; use driver \"terraform\""`
}

type rawTerraform struct {
	origin
	Engine            rawString   `key:"engine" default:"terraform"`
	Version           rawString   `key:"version"`
	Path              rawString   `key:"path"`
	Log               rawBool     `key:"log" default:"false"`
	PersistLog        rawBool     `key:"persist_log" default:"false"`
	Backend           labelled    `key:"backend"`
	RequiredProviders freeForm    `key:"required_providers"`
	WorkingDir        unsupported `key:"working_dir" say:"invalid key working_dir: it was removed from the driver, set working_dir at the top level or in the task"`
}

type rawTask struct {
	origin
	Name          rawString        `key:"name"`
	Description   rawString        `key:"description"`
	Enabled       rawBool          `key:"enabled" default:"true"`
	Module        rawString        `key:"module"`
	Version       rawString        `key:"version"`
	Providers     rawStrings       `key:"providers"`
	VariableFiles rawStrings       `key:"variable_files"`
	Variables     rawMap           `key:"variables"`
	Condition     rawCondition     `key:"condition"`
	ModuleInputs  []rawModuleInput `key:"module_input"`
	BufferPeriod  rawTaskBuffer    `key:"buffer_period"`
	WorkingDir    rawString        `key:"working_dir"`

	Source       rawString        `key:"source" deprecated:"module"`
	Services     rawStrings       `key:"services" deprecated:"condition \"services\" or module_input \"services\""`
	SourceInputs []rawModuleInput `key:"source_input" deprecated:"module_input"`

	TerraformVersion        unsupported `key:"terraform_version" say:"terraform_version is an unsupported configuration: it belongs to Consul-Terraform-Sync Enterprise; set version in driver \"terraform\""`
	TerraformCloudWorkspace unsupported `key:"terraform_cloud_workspace" say:"terraform_cloud_workspace is an unsupported configuration: it belongs to Consul-Terraform-Sync Enterprise; remove it"`
}

// rawCondition has a block for each kind; exactly one may be set.
type rawCondition struct {
	origin          `unknown:"unsupported condition type"`
	Services        rawServicesCondition `key:"services"`
	CatalogServices rawCatalogServices   `key:"catalog-services"`
	ConsulKV        rawKVCondition       `key:"consul-kv"`
	Schedule        rawSchedule          `key:"schedule"`
}

type rawModuleInput struct {
	origin   `unknown:"unsupported module_input type"`
	Services rawServices `key:"services"`
	ConsulKV rawConsulKV `key:"consul-kv"`
}

type rawServices struct {
	origin
	Names              rawStrings `key:"names"`
	Regexp             rawString  `key:"regexp"`
	Datacenter         rawString  `key:"datacenter"`
	Namespace          rawString  `key:"namespace"`
	Filter             rawString  `key:"filter"`
	CTSUserDefinedMeta rawMap     `key:"cts_user_defined_meta"`
}

type rawServicesCondition struct {
	rawServices
	UseAsModuleInput  rawBool `key:"use_as_module_input" default:"true"`
	SourceIncludesVar rawBool `key:"source_includes_var" deprecated:"use_as_module_input"`
}

type rawCatalogServices struct {
	origin
	Regexp            rawString `key:"regexp"`
	Datacenter        rawString `key:"datacenter"`
	Namespace         rawString `key:"namespace"`
	NodeMeta          rawMap    `key:"node_meta"`
	UseAsModuleInput  rawBool   `key:"use_as_module_input" default:"true"`
	SourceIncludesVar rawBool   `key:"source_includes_var" deprecated:"use_as_module_input"`
}

type rawConsulKV struct {
	origin
	Path       rawString `key:"path"`
	Recurse    rawBool   `key:"recurse" default:"false"`
	Datacenter rawString `key:"datacenter"`
	Namespace  rawString `key:"namespace"`
}

type rawKVCondition struct {
	rawConsulKV
	UseAsModuleInput  rawBool `key:"use_as_module_input" default:"true"`
	SourceIncludesVar rawBool `key:"source_includes_var" deprecated:"use_as_module_input"`
}

type rawSchedule struct {
	origin
	Cron rawString `key:"cron"`
}

type rawService struct {
	origin
	Name               rawString `key:"name"`
	ID                 rawString `key:"id"`
	Description        rawString `key:"description"`
	Datacenter         rawString `key:"datacenter"`
	Namespace          rawString `key:"namespace"`
	Filter             rawString `key:"filter"`
	CTSUserDefinedMeta rawMap    `key:"cts_user_defined_meta"`

	Tag unsupported `key:"tag" say:"invalid key tag: it was removed, use filter with \"<tag>\" in Service.Tags"`
}
