# The load balancer of ../quickstart in a cluster. Start this file on three
# machines, each with a second file with its own id and address. One instance
# leads, and another one takes over if the leader fails.

high_availability {
  cluster {
    name = "load-balancers"
    storage "consul" {
      session_ttl = "10s"
    }
  }
}

# Terraform's states are also in Consul, where every instance can reach them.
driver "terraform" {
  backend "consul" {
    path = "load-balancers/terraform"
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
