# The load balancer of ../quickstart, written as for Consul-Terraform-Sync.
# Such files need no change.

driver "terraform" {
  backend "local" {}
}

task {
  name        = "load-balancer"
  description = "Give every healthy instance of web its line in the load balancer"
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
  description = "Put a notice on the web site while there is one"
  module      = "../quickstart/maintenance"

  condition "consul-kv" {
    path = "web/maintenance"
  }
}
