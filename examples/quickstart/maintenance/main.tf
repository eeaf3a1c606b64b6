# Writes a page that says what is wrong, as long as a key in Consul says so.

terraform {
  required_version = ">= 1.0"
  required_providers {
    local = {
      source  = "hashicorp/local"
      version = "~> 2.1"
    }
  }
}

# Every module is given the services, whether it uses them or not.
variable "services" {
  type = map(any)
}

variable "consul_kv" {
  description = "Holds web/maintenance while there is something to say"
  type        = map(string)
}

variable "file" {
  description = "Where to write, below the task's folder unless absolute"
  type        = string
  default     = "maintenance.html"
}

locals {
  notice = lookup(var.consul_kv, "web/maintenance", "All systems work")
}

resource "local_file" "page" {
  filename        = var.file
  file_permission = "0644"
  content         = <<-EOT
    <!doctype html>
    <title>Status</title>
    <h1>${replace(replace(local.notice, "&", "&amp;"), "<", "&lt;")}</h1>
  EOT
}
