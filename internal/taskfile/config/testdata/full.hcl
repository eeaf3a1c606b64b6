log_level   = "ERR"
port        = 8502
working_dir = "working"
id          = "terrapulse-1"

syslog {
  enabled = true
  name    = "terrapulse"
}

buffer_period {
  min = "20s"
  max = "60s"
}

tls {
  enabled         = false
  cert            = "api.pem"
  key             = "api-key.pem"
  verify_incoming = true
  ca_cert         = "ca.pem"
}

consul {
  address = "consul.example.com:8500"
  kv_path = "network"
  token   = "consul-token"

  auth {
    enabled  = true
    username = "someone"
    password = "something"
  }

  tls {
    enabled     = true
    ca_cert     = "/etc/consul/ca.pem"
    ca_path     = "/etc/consul/ca.d"
    key         = "/etc/consul/key.pem"
    server_name = "server.dc1.consul"
    verify      = false
  }

  transport {
    dial_keep_alive         = "5s"
    dial_timeout            = "10s"
    disable_keep_alives     = false
    idle_conn_timeout       = "1m"
    max_idle_conns_per_host = 100
    tls_handshake_timeout   = "10s"
  }

  service_registration {
    enabled = true
    default_check {
      address = "http://10.0.0.5:8502"
    }
  }
}

driver "terraform" {
  version = "1.16.4"
  path    = "bin"
  log     = true

  backend "consul" {
    address = "consul.example.com:8500"
    path    = "network/terraform"
    gzip    = true
  }

  required_providers {
    local = "~> 2.8"
    firewall = {
      version = "v0.0.1",
      source  = "example/firewall"
    }
  }
}

service {
  name        = "api"
  description = "the API"
}

service {
  name      = "db"
  id        = "db-b"
  namespace = "team-b"

  cts_user_defined_meta {
    "owner" = "b"
  }
}

terraform_provider "local" {}

terraform_provider "firewall" {
  alias   = "east"
  address = "10.0.0.1"
  retries = 3
  secure  = true

  login {
    user = "admin"

    realm {
      name = "one"
    }
    realm {
      name = "two"
    }

    limits = {
      sessions = 5
    }
  }

  task_env {
    "FIREWALL_TOKEN" = "secret"
  }
}

task {
  name        = "firewall"
  description = "keep the firewall's address groups in step"
  services    = ["api", "db-b", "cache"]
  providers   = ["local", "firewall.east"]
  module      = "./firewall"

  variables = {
    zone = "\"dmz\""
  }

  condition "catalog-services" {
    regexp              = ".*"
    use_as_module_input = true
    datacenter          = "dc2"
    namespace           = "ns2"
    node_meta {
      "key1" = "value1"
      "key2" = "value2"
    }
  }

  module_input "consul-kv" {
    path       = "/firewall/rules"
    recurse    = true
    datacenter = "dc2"
    namespace  = "ns2"
  }
}

task {
  name    = "report"
  enabled = false
  module  = "example/report/local"
  version = "1.2.0"

  condition "schedule" {
    cron = "0 6 * * Mon"
  }

  module_input "services" {
    names  = ["web"]
    filter = "\"v1\" in Service.Tags"
  }

  run_timeout = "0s"
  aws_role    = "arn:aws:iam::123456789012:role/report"

  guard {
    within      = "0s"
    max_removed = 5
    max_destroy = 3
    min_entries = 0
  }

  require_distinct_approver = true

  window {
    kind      = "deny"
    schedule  = "0 8 * * Mon-Fri"
    duration  = "10h"
    time_zone = "UTC"
  }

  check "public" {
    enabled = false
  }

  check "names" {
    command = ["./check-names"]
    on_fail = "fail"
    timeout = "5s"
  }

  drift {
    schedule  = "0 3 * * *"
    time_zone = "UTC"
    action    = "apply"
  }
}

api {
  bind_address    = "10.0.0.5"
  hosts           = ["terrapulse.example.com", "terrapulse"]
  token           = "{{ env \"TERRAPULSE_TOKEN\" }}"
  read_token_file = "/etc/terrapulse/read-token"
}

run_timeout = "90m"
keep_removed = "48h"
audit_retention = "72h"

guard {
  within      = "10m"
  max_removed = 20
  on_empty    = "hold"
}

check "public" {
  command = ["conftest", "test", "-"]
}

approval         = "destructive"
approval_expires = "8h"
on_removal       = "destroy"

window {
  kind      = "allow"
  schedule  = "0 22 * * *"
  duration  = "6h"
  time_zone = "Europe/Berlin"
}

window {
  kind                  = "deny"
  schedule              = "0 0 24 12 *"
  duration              = "72h"
  on                    = ["apply"]
  allow_removals_always = true
}

drift {
  every = "12h"
}
