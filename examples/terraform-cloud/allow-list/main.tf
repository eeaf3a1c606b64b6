# Keeps the addresses of all instances, and when they changed last. Both are only in the state:
# replace terraform_data by a resource of your firewall.

terraform {
  required_version = ">= 1.4"
  required_providers {
    time = {
      source  = "hashicorp/time"
      version = "~> 0.9"
    }
  }
}

variable "services" {
  description = "The instances in Consul, healthy ones only"
  type = map(object({
    address = string
  }))
}

locals {
  addresses = sort(distinct([for s in var.services : s.address]))
}

resource "terraform_data" "allowed" {
  input = local.addresses
}

resource "time_static" "changed" {
  triggers = {
    addresses = join(" ", local.addresses)
  }
}
