# Writes the configuration of a load balancer, in the format of HAProxy.

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
    id      = string
    address = string
    port    = number
  }))
}

variable "consul_kv" {
  description = "Optional: the key web/balance with the algorithm"
  type        = map(string)
}

variable "file" {
  description = "The file to write; relative paths are below the task's folder"
  type        = string
  default     = "haproxy.cfg"
}

resource "local_file" "config" {
  filename        = var.file
  file_permission = "0644"
  content = templatefile("${path.module}/haproxy.cfg.tftpl", {
    balance = lookup(var.consul_kv, "web/balance", "roundrobin")
    servers = values(var.services)
  })
}
