# Writes a list of all services with their tags.

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

variable "catalog_services" {
  description = "The tags of every service, by its name"
  type        = map(list(string))
}

resource "local_file" "list" {
  filename        = "services.md"
  file_permission = "0644"
  content = join("", [
    for name, tags in var.catalog_services :
    "- ${name}${length(tags) > 0 ? ": ${join(", ", tags)}" : ""}\n"
  ])
}
