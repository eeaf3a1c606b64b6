# The load balancer of ../quickstart, run by Nomad: put this file and its module
# into /etc/terrapulse on each client that may run an instance or a runner.

high_availability {
  cluster {
    name = "balancers"
  }
}

nomad {
  job = "terrapulse-runner"
}

# Terraform's states are in Consul, where every runner can reach them.
driver "terraform" {
  backend "consul" {
    path = "balancers/terraform"
  }
}

# A person decides whether the loss of the last entry is applied.
guard {
  on_empty = "hold"
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
