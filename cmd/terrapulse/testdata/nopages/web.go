// Package web takes the place of the pages in a program that is built without them, so
// that it is known how large they are.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/terrapulse/terrapulse/internal/access"
	"github.com/terrapulse/terrapulse/internal/apiclient"
)

const Root = "/ui/"

type Options struct {
	API     *apiclient.Client
	Poll    time.Duration
	Stack   string
	Who     func(*http.Request) access.Sender
	MayAct  func(*http.Request) bool
	Version string
	Now     func() time.Time
	Log     *slog.Logger
}

func New(context.Context, Options) http.Handler { return http.NotFoundHandler() }

func MayAct(*http.Request) bool { return false }
