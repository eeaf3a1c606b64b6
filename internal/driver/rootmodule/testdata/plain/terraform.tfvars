# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description:

catalog_services = {
  "api" = ["tag"]
  "consul" = []
  "web" = ["tag_a", "tag\nb \"q\" $${x}"]
}

services = {
}
