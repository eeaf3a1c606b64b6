package main

import (
	"github.com/terrapulse/terrapulse/internal/notify"
	"github.com/terrapulse/terrapulse/internal/secrets"
)

// sinks returns the sinks of notify blocks. Their templates read from AWS and from the function's
// environment.
func sinks(source *secrets.Source) *notify.Set {
	return &notify.Set{InAWS: true, Evaluate: notify.Simple(tokens{source: source}.look)}
}
