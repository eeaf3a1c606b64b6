# Written by Terrapulse, from its task files and from what Consul says.
# The next run of the task writes it again: changes made by hand are lost.
#
# Task: test
# Description: user description for task named 'test'

terraform {
  required_version = ">= 0.13.0"
  required_providers {
    testProvider = {
      source  = "namespace/testProvider"
      version = "1.2.0"
    }
  }
  backend "consul" {
    path   = "consul-terraform-sync/terraform"
    scheme = "https"
  }
}

provider "other" {
}

provider "testProvider" {
  attr  = var.testProvider.attr
  count = var.testProvider.count
  obj {
    id = var.testProvider.obj.id
    inner {
      deep {
        a = var.testProvider.obj.inner.deep.a
      }
    }
    username = var.testProvider.obj.username
  }
  rule {
    id = var.testProvider.rule[0].id
  }
  rule {
    id = var.testProvider.rule[1].id
    sub {
      x = var.testProvider.rule[1].sub[0].x
    }
    sub {
      x = var.testProvider.rule[1].sub[1].x
    }
  }
}

# user description for task named 'test'
module "test" {
  source    = "namespace/consul-terraform-sync/consul//modules/test"
  version   = "0.0.0"
  services  = var.services
  consul_kv = var.consul_kv

  bool_true = var.bool_true
  nothing   = var.nothing
  obj       = var.obj
  tup       = var.tup
}
