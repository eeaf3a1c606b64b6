# Writes the list of targets that Prometheus reads (file_sd_configs).

terraform {
  required_version = ">= 1.0"
  required_providers {
    local = {
      source  = "hashicorp/local"
      version = "~> 2.1"
    }
  }
}

# Every module gets the services, whether it uses them or not.
variable "services" {
  type = map(any)
}

variable "nodes" {
  description = "Consul nodes by name"
  type = map(object({
    address    = string
    datacenter = string
    meta       = map(string)
    status     = string
  }))
}

resource "local_file" "targets" {
  filename        = "targets.json"
  file_permission = "0644"
  content = jsonencode([
    for name, node in var.nodes : {
      targets = ["${node.address}:9100"]
      labels  = { node = name, datacenter = node.datacenter, status = node.status, rack = lookup(node.meta, "rack", "") }
    }
  ])
}
