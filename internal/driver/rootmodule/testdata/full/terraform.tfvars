# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description: user description for task named 'test'

consul_kv = {
  "key-path" = "red"
  "quo\"te" = "{\"a\": \"b\\\\c\"}\n$${x} %%{if}"
}

services = {
  "api.worker-01.dc1" = {
    id              = "api"
    name            = "api"
    kind            = ""
    address         = "1.2.3.4"
    port            = 8080
    meta            = {}
    tags            = ["tag"]
    namespace       = ""
    status          = "passing"
    node            = "worker-01"
    node_id         = "39e5a7f5-2834-e16d-6925-78167c9f50d8"
    node_address    = "127.0.0.1"
    node_datacenter = "dc1"
    node_tagged_addresses = {
      lan      = "127.0.0.1"
      wan_ipv4 = "127.0.0.1"
    }
    node_meta = {
      consul-network-segment = ""
    }
    cts_user_defined_meta = {}
  },
  "web.worker-01.team.dc1" = {
    id      = "web"
    name    = "web"
    kind    = ""
    address = "1.1.1.1"
    port    = 8000
    meta = {
      "spaced key" = "$${x}"
      version      = "1"
    }
    tags                  = ["tag_a", "tag_b"]
    namespace             = "team"
    status                = "warning"
    node                  = "worker-01"
    node_id               = ""
    node_address          = "127.0.0.1"
    node_datacenter       = "dc1"
    node_tagged_addresses = {}
    node_meta             = {}
    cts_user_defined_meta = {
      owner = "me"
    }
  },
}
