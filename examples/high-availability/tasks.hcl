# The load balancer of ../quickstart, kept in step by a cluster: start the same
# file on three machines, each with an id and an address of its own in a second
# file, and one of them leads. Another takes over when it is gone.

high_availability {
  cluster {
    name = "load-balancers"
    storage "consul" {
      session_ttl = "10s"
    }
  }
}

# The states are in Consul too, where every instance finds them.
driver "terraform" {
  backend "consul" {
    path = "load-balancers/terraform"
  }
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
