# Configuration of a Consul agent: it sends an event when the instances of a service change, or their health,
# or keys below a prefix. One watch for each service of the tasks. Replace the region.
watches = [
  {
    type    = "service"
    service = "web"
    args    = ["aws", "events", "put-events", "--region", "eu-west-1", "--entries", "[{\"Source\": \"consul\", \"DetailType\": \"changed\", \"Detail\": \"{}\"}]"]
  },
  {
    type   = "keyprefix"
    prefix = "network/"
    args   = ["aws", "events", "put-events", "--region", "eu-west-1", "--entries", "[{\"Source\": \"consul\", \"DetailType\": \"changed\", \"Detail\": \"{}\"}]"]
  }
]
