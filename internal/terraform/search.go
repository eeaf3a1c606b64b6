package terraform

import (
	"context"
	"log/slog"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Search is a search for Terraform in the background. It takes the time of a
// process or of a download.
type Search struct {
	stop   context.CancelFunc
	result chan error
	binary *Binary
}

// StartSearch begins to search for the Terraform that Find returns.
func StartSearch(ctx context.Context, cfg config.Terraform, log *slog.Logger) *Search {
	ctx, stop := context.WithCancel(ctx)
	s := &Search{stop: stop, result: make(chan error, 1)}
	go func() {
		var err error
		s.binary, err = Find(ctx, cfg, log)
		s.result <- err
	}()
	return s
}

// Wait returns what was found.
func (s *Search) Wait() (*Binary, error) {
	err := <-s.result
	return s.binary, err
}

// Stop ends the search.
func (s *Search) Stop() { s.stop() }
