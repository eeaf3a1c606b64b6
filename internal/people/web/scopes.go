package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/people/access"
)

// scopes are the pages by what their viewers may view. What is read is kept for all viewers with the
// same scope, so that none gets anything of a task that they may not view.
type scopes struct {
	Options
	ctx  context.Context
	each bool // viewers may differ

	counts counts
	turn   chan struct{} // has an element while an export reads a part

	mu   sync.Mutex
	kept map[string]*scope // by the rights to view
}

// scope is the pages for viewers who may view the same tasks.
type scope struct {
	http.Handler
	*pages
}

// maxScopes is how many scopes are kept: those of all kinds of viewers that grants usually distinguish.
const maxScopes = 100

// of returns the pages for a viewer.
func (s *scopes) of(viewer access.Caller) *scope {
	viewer = viewer.Viewer()
	key := viewer.Rights.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.kept[key]; known != nil {
		return known
	}
	for other, unused := range s.kept {
		if len(s.kept) < maxScopes {
			break
		}
		if len(unused.news.tasks()) == 0 { // open pages find their pages again by their streams
			delete(s.kept, other)
		}
	}
	made := newPages(s.ctx, s.Options, viewer, s)
	s.kept[key] = made
	return made
}

// inTurn reads a part of an export. All exports of the process take turns. After each part, other requests and
// the ticks have as much time as the part took. The turn ends before the part is sent: clients can be slow.
func (s *scopes) inTurn(ctx context.Context, read func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	err := read()
	delay.For(ctx, time.Since(began))
	return err
}

// acted has everything read again after somebody has acted, and open pages be told if something changed.
func (s *scopes) acted(changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.kept {
		one.source.forget()
		if changed {
			one.news.stir()
		}
	}
}
