# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description:

terraform {
  required_version = ">= 0.13.0"
  backend "local" {
  }
}


module "test" {
  source           = "./module"
  services         = var.services
  catalog_services = var.catalog_services
}
