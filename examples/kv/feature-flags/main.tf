# Writes keys below features/ into a JSON file.

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
  description = "The values, by full path"
  type        = map(string)
}

resource "local_file" "flags" {
  filename        = "features.json"
  file_permission = "0644"
  content         = "${jsonencode({ for path, value in var.consul_kv : trimprefix(path, "features/") => value })}\n"
}
