//go:build tools

// Package tools pins the Terraform for tests and demo, if none is installed and HashiCorp's
// releases cannot be reached.
package tools

import _ "github.com/hashicorp/terraform"
