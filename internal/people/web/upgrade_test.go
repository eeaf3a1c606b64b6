package web_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

var buildOf = regexp.MustCompile(`data-build="([0-9a-f]{12})"`)

// upgraded is a site whose pages and streams name the build that a test chooses, and counts how often a page
// is loaded as a whole.
type upgraded struct {
	*site
	build, stream atomic.Value // string
	loads         atomic.Int32
}

// replacing replaces the name of a build in what it writes.
type replacing struct {
	http.ResponseWriter
	from, to string
}

func (w replacing) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(bytes.ReplaceAll(p, []byte(w.from), []byte(w.to)))
	return len(p), err
}

func (w replacing) WriteString(text string) (int, error) {
	return w.Write([]byte(text))
}
func (w replacing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newUpgraded(t *testing.T) *upgraded {
	u := &upgraded{site: newSite(t, "web")}
	u.site.write("web", u.ran("web", state.RunSucceeded, "service web: +web-1"))
	page, _ := u.page("/ui/tasks")
	found := buildOf.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page names no build")
	}
	u.build.Store("old-build")
	u.stream.Store("old-build")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		build := u.build.Load().(string)
		if r.URL.Path == "/ui/news" {
			build = u.stream.Load().(string)
		}
		if r.URL.Path == "/ui/tasks" && r.Header.Get("HX-Request") == "" {
			u.loads.Add(1)
		}
		r.Header.Del("Accept-Encoding")
		u.pages.ServeHTTP(replacing{w, found[1], build}, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	u.url = server.URL
	return u
}

// upgrade has the page hear of another build, as when it connects to the new process.
func (u *upgraded) upgrade(b *browsertest.Browser, build string) {
	u.build.Store(build)
	u.stream.Store(build)
	browsertest.Eval[chromedp.Void](b, `htmx.trigger(document.getElementById('news'), 'alive', {data: '`+build+`'})`)
}

func (u *upgraded) expect(b *browsertest.Browser, when string, loads int32) {
	u.t.Helper()
	for range 40 {
		if u.loads.Load() == loads && browsertest.Eval[bool](b, `document.readyState === 'complete'`) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // it must not load again
	if got := u.loads.Load(); got != loads {
		u.t.Errorf("%s, the page was loaded %d times, want %d", when, got, loads)
	}
}

func TestUpgrade_AnOpenPageLoadsItselfAgainOnce(t *testing.T) {
	u := newUpgraded(t)
	b := browsertest.New(t)
	b.Open(u.url + "/ui/tasks")
	b.Until("web")
	u.expect(b, "without an upgrade", 1)
	u.upgrade(b, "new-build")
	u.expect(b, "after an upgrade", 2)
	b.Until("web")
	u.upgrade(b, "old-build") // another instance answers
	u.expect(b, "behind two instances", 2)
	browsertest.Eval[chromedp.Void](b, `sessionStorage.upgraded = Date.now() - 2 * 3600000`)
	u.upgrade(b, "newest-build")
	u.expect(b, "after an upgrade hours later", 3)
	b.Quiet()
}

func TestUpgrade_APageThatIsUsedWaits(t *testing.T) {
	u := newUpgraded(t)
	b := browsertest.New(t)
	b.Open(u.url + "/ui/tasks")
	b.Until("web")
	browsertest.Do(b, chromedp.Focus(chromedp.CSS("#search")))
	u.upgrade(b, "new-build")
	u.expect(b, "while somebody types", 1)
	browsertest.Eval[chromedp.Void](b, `document.activeElement.blur()`)
	u.upgrade(b, "new-build")
	u.expect(b, "when nobody types", 2)
}

func TestUpgrade_TheStreamNamesTheBuild(t *testing.T) {
	u := newUpgraded(t)
	u.stream.Store("new-build")
	b := browsertest.New(t)
	b.Open(u.url + "/ui/tasks")
	u.expect(b, "with a stream of another instance", 2)
}
