package apiclient

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// net/http logs an answer that comes together with an error.
func TestLocal_CallerWhoGoesAwayLeavesNoLine(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	ctx, goAway := context.WithCancel(t.Context())
	c := Local(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		goAway()
		_, _ = w.Write([]byte("{}"))
	}))
	if _, err := c.Overview(ctx, selection.Selection{}); !errors.Is(err, context.Canceled) || said.Len() > 0 {
		t.Errorf("%v, logged %q", err, said.String())
	}
}
