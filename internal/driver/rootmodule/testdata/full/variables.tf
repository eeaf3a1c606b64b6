# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description: user description for task named 'test'

# Service definition protocol v0
variable "services" {
  description = "Consul services monitored by Consul-Terraform-Sync"
  type = map(
    object({
      id        = string
      name      = string
      kind      = string
      address   = string
      port      = number
      meta      = map(string)
      tags      = list(string)
      namespace = string
      status    = string

      node                  = string
      node_id               = string
      node_address          = string
      node_datacenter       = string
      node_tagged_addresses = map(string)
      node_meta             = map(string)

      cts_user_defined_meta = map(string)
    })
  )
}

# Consul KV definition protocol v0
variable "consul_kv" {
  description = "Consul KV pair"
  type        = map(string)
}

variable "testProvider" {
  default     = null
  description = "Configuration object for testProvider"
  sensitive   = true
  type = object({
    alias = string
    attr  = string
    count = number
    obj = object({
      id = string
      inner = object({
        deep = object({
          a = string
        })
      })
      username = string
    })
    rule = tuple([object({
      id = string
      }), object({
      id = string
      sub = tuple([object({
        x = number
        }), object({
        x = number
      })])
    })])
  })
}
