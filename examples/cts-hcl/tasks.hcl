# The load balancer of ../quickstart as a file for Consul-Terraform-Sync, which
# Terrapulse reads unchanged.

driver "terraform" {
  backend "local" {}
}

task {
  name        = "load-balancer"
  description = "Write a line for every healthy instance of web into the load balancer's configuration"
  module      = "../quickstart/load-balancer"

  condition "services" {
    names = ["web"]
  }

  module_input "consul-kv" {
    path = "web/balance"
  }
}

task {
  name        = "maintenance"
  description = "Show the maintenance notice as a page"
  module      = "../quickstart/maintenance"

  condition "consul-kv" {
    path = "web/maintenance"
  }
}
