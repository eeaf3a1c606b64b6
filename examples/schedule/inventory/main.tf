# Writes a table of all healthy instances of all services.

terraform {
  required_version = ">= 1.0"
  required_providers {
    local = {
      source  = "hashicorp/local"
      version = "~> 2.1"
    }
  }
}

variable "services" {
  description = "The instances in Consul, healthy ones only"
  type = map(object({
    name    = string
    address = string
    port    = number
    node    = string
  }))
}

resource "local_file" "inventory" {
  filename        = "inventory.csv"
  file_permission = "0644"
  content = join("", concat(
    ["service,address,port,node\n"],
    [for s in var.services : "${s.name},${s.address},${s.port},${s.node}\n"],
  ))
}
