# Writes a file for each address that may reach the database.

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
  }))
}

resource "local_file" "rule" {
  for_each        = var.services
  filename        = "rules/${each.value.id}.txt"
  file_permission = "0644"
  content         = "allow ${each.value.address}\n"
}
