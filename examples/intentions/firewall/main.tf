# Writes a rule for each source that an intention allows.

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

variable "config_entries" {
  description = "The JSON text of each entry, by its name"
  type        = map(string)
}

locals {
  intentions = { for destination, text in var.config_entries : destination => jsondecode(text) }
}

resource "local_file" "rules" {
  filename        = "rules.txt"
  file_permission = "0644"
  content = join("", flatten([for destination, intention in local.intentions : [
    # a source with permissions for paths has no action
    for source in intention.Sources : "allow ${source.Name} to ${destination}\n" if try(source.Action, "") == "allow"
  ]]))
}
