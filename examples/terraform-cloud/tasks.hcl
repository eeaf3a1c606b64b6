# A task file of Consul-Terraform-Sync Enterprise, which Terrapulse reads unchanged. HCP
# Terraform runs the tasks, in one workspace per task: here cts-allow-list. The environment
# variable TFC_TOKEN has the token, and TFC_HOSTNAME names your own Terraform Enterprise.

driver "terraform-cloud" {
  organization = "acme"

  workspaces {
    prefix = "cts-"
    tags   = ["network"]
  }

  required_providers {
    time = {
      source  = "hashicorp/time"
      version = "~> 0.9"
    }
  }
}

task {
  name        = "allow-list"
  description = "Keep the list of the addresses that the database lets in"
  module      = "./allow-list"
  providers   = ["time"]

  condition "services" {
    names = ["web"]
  }
}
