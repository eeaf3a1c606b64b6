package web_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// A browser connects to a server six times at most. If each tab had a stream, the seventh
// one would not load, and no button would work.
func TestPages_InTheBackgroundConnectWhenTheyAreSeen(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	var streams atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/news" {
			streams.Add(1)
		}
		s.pages.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b := browsertest.New(t)
	b.Behind()
	b.Open(server.URL + "/ui/tasks")
	b.Until("web", "applied")
	browsertest.Eval[chromedp.Void](b, refreshed) // the scripts have begun
	if n := streams.Load(); n != 0 {
		t.Errorf("a page in the background has %d streams", n)
	}
	b.Front()
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	b.Until("failing")
	if n := streams.Load(); n != 1 {
		t.Errorf("a page that is seen has %d streams", n)
	}
	b.Quiet()
}
