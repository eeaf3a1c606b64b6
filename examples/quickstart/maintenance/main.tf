# Writes a page with the maintenance notice, as long as there is a key with the notice in Consul.

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

variable "consul_kv" {
  description = "Contains web/maintenance as long as there is a notice"
  type        = map(string)
}

variable "file" {
  description = "The file to write; relative paths are below the task's folder"
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
