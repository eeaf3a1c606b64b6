package serve

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// While the store of a cluster does not answer, a session lets nobody in and is not lost: when the store is
// back, people go on without signing in again. What needs no store goes on meanwhile.
func TestOpenID_SessionOutlivesAnOutageOfTheStore(t *testing.T) {
	p := openidtest.New(t)
	var broken atomic.Bool
	var now atomic.Pointer[time.Time]
	now.Store(new(time.Now()))
	s := withProvider(t, p, func(o *Options) {
		o.Credentials = credentials.New(breaking{statetest.NewMemory(), &broken}, func() time.Time { return *now.Load() })
	})
	v := visit(t, s)
	if got := v.follow(v.page("/ui/session/provider?next=%2Fui%2Fruns")); got != "/ui/runs 2 user:alice@example.com" {
		t.Fatalf("after signing in: %s", got)
	}
	broken.Store(true)
	now.Store(new(now.Load().Add(credentials.Fresh + time.Second)))
	resp, err := v.Get(v.page("/ui/runs"))
	if err != nil {
		t.Fatal(err)
	}
	if text := v.read(resp, nil); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "check the session: ") || !strings.Contains(text, "try again") {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	wantNoGuess(s)
	for name, token := range map[string]string{"an ID token of the command line": p.Token(t, "terrapulse-cli", nil), "a token of the configuration": actToken} {
		r, _ := http.NewRequest(http.MethodGet, s.url("http"), nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client(t, nil).Do(r)
		if text := v.read(resp, err); resp.StatusCode != http.StatusOK {
			t.Errorf("%s is refused meanwhile: %s %s", name, resp.Status, text)
		}
	}
	broken.Store(false)
	if got := v.get("/ui/runs"); got != "/ui/runs 2 user:alice@example.com" {
		t.Errorf("after the outage: %s", got)
	}
}
