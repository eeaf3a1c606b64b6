# The settings of the first instance:
#
#   terrapulse start -config-file=tasks.hcl -config-file=instance-1.hcl

id   = "load-balancers-1"
port = 8561

high_availability {
  instance {
    address = "localhost:8561"
  }
}
