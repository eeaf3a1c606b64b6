package config

import (
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Position and Diagnostic belong to package block, which the kinds of condition
// use, too.
type (
	Position   = block.Position
	Diagnostic = block.Diagnostic
)

// Errors is everything that is wrong with a configuration.
type Errors []Diagnostic

// Err returns e as an error, nil if e is empty.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

func (e Errors) Error() string {
	return strings.Join(list.Map(e, Diagnostic.String), "\n")
}
