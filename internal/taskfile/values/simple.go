package values

import (
	"context"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Simple evaluates templates that only call one function, as notify.Simple does. Look makes the
// call.
type Simple struct {
	Look func(ctx context.Context, function string, arguments []string) (string, error)
}

// Evaluate evaluates the templates of the task's providers and variables.
func (s Simple) Evaluate(ctx context.Context, cfg *config.Config, t *config.Task) (Values, error) {
	return Evaluate(ctx, cfg, t, func(at Site) (r Result) {
		r.Text, r.Err = notify.Simple(func(ctx context.Context, function string, arguments []string) (string, error) {
			piece, err := s.Look(ctx, function, arguments)
			r.Pieces = append(r.Pieces, piece)
			return piece, err
		})(ctx, "template", at.Text)
		return r
	})
}
