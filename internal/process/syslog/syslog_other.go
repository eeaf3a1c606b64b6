//go:build !unix

// Package syslog sends log events to the system's syslog daemon, if there is one.
package syslog

import (
	"errors"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Handler does not exist on this system.
type Handler struct{ slog.Handler }

// New returns an error: this system has no syslog.
func New(config.Syslog, slog.Leveler) (*Handler, error) {
	return nil, errors.New("this system has no syslog: set syslog.enabled to false, and use the log on standard error")
}

// Close does nothing.
func (*Handler) Close() {}
