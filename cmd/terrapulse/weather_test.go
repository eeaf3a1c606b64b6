package main

import (
	"encoding/json"
	"fmt"
)

// echo is a module that writes all that it is given, as JSON.
const echo = `
terraform {
  required_providers {
    local = {
      source = "hashicorp/local"
    }
  }
}
variable "services" {}
variable "catalog_services" {
  default = {}
}
variable "consul_kv" {
  default = {}
}
variable "file" {}
resource "local_file" "out" {
  filename = var.file
  content  = jsonencode({ services = var.services, catalog = var.catalog_services, kv = var.consul_kv })
}
`

// echoed is what that module wrote.
type echoed struct {
	Services map[string]echoedService
	Catalog  map[string][]string
	KV       map[string]string
}

type echoedService struct {
	Name, ID, Address, Status, Node string
	Port                            int
	Tags                            []string
	Meta, Node_meta                 map[string]string
	CTS_user_defined_meta           map[string]string
}

// echoTask is a task whose module writes all that it is given to <name>.json.
func (s *site) echoTask(name, body string) string {
	s.write("echo/main.tf", echo)
	return taskOf(name, s.path("echo"), fmt.Sprintf("variables {\n    file = \"\\\"%s\\\"\"\n  }\n  %s", s.path(name+".json"), body))
}

func (s *site) echoed(name string) echoed {
	s.t.Helper()
	var e echoed
	if text := s.read(name + ".json"); text != "" {
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
	}
	return e
}
