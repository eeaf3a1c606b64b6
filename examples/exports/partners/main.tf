# Lists the services that each peer may use.

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

variable "resources" {
  description = "The JSON text of each resource, by its name"
  type        = map(string)
}

locals {
  exports = [for text in values(var.resources) : jsondecode(text).data]
  peers   = distinct(flatten([for e in local.exports : [for c in e.consumers : c.peer if can(c.peer)]]))
}

resource "local_file" "partners" {
  filename        = "partners.txt"
  file_permission = "0644"
  content = join("", [for peer in sort(local.peers) :
    "${peer}: ${join(", ", sort(distinct(flatten([for e in local.exports : e.services if contains([for c in e.consumers : try(c.peer, "")], peer)]))))}\n"
  ])
}
