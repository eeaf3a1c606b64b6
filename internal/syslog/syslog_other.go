//go:build !unix

// Package syslog hands log events on to the system's syslog daemon, where there
// is one.
package syslog

import (
	"errors"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Handler is never made on this system.
type Handler struct{ slog.Handler }

// New says that this system has no syslog.
func New(config.Syslog, slog.Leveler) (*Handler, error) {
	return nil, errors.New("this system has no syslog: set syslog.enabled to false, and use what stderr says")
}

// Close does nothing.
func (*Handler) Close() {}
