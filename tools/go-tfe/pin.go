// Package pin requires go-tfe, so that `go mod tidy` keeps it.
package pin

import _ "github.com/hashicorp/go-tfe"
