//go:build tools

// Package tools pins the Terraform that the tests and the demo run where none
// is installed and HashiCorp's releases cannot be reached.
package tools

import _ "github.com/hashicorp/terraform"
