package web_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// browser is a tab of a real browser.
type browser struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	console []string // what the browser has complained about
}

// patience is how long a page may take to show what a test waits for.
const patience = 30 * time.Second

func newBrowser(t testing.TB) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(testtools.Browser(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1200, 900),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of its first action
		t.Fatal(err)
	}
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.console = append(b.console, m.String())
			b.mu.Unlock()
		}
	}()
	return b
}

// quiet fails the test for everything that the browser complains about, such as what
// the Content-Security-Policy forbids.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		b.t.Errorf("the browser says: %s", line)
	}
	b.console = nil
}

// do runs an action in the tab.
func do[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return got
}

func (b *browser) open(url string) { b.t.Helper(); do(b, chromedp.Navigate(url)) }

func (b *browser) text(selector string) string {
	b.t.Helper()
	return do(b, chromedp.Text(chromedp.CSS(selector)))
}

// until waits until the text of the page's content has all words.
func (b *browser) until(words ...string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for {
		text := b.text("main")
		missing := ""
		for _, w := range words {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		switch {
		case missing == "":
			return
		case time.Now().After(end):
			b.t.Fatalf("the page never shows %q:\n%s", missing, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func eval[T any](b *browser, script string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// prefers sets the color scheme that the viewer prefers: light or dark.
func (b *browser) prefers(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// accessible fails the test for everything on the page that violates WCAG 2.2 AA.
func (b *browser) accessible() {
	b.t.Helper()
	axe, err := os.ReadFile(testtools.Axe(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	eval[chromedp.Void](b, string(axe))
	found := eval[string](b, `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => JSON.stringify(r.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html).join(' | '))))`)
	if found != "[]" {
		b.t.Errorf("violations: %s", found)
	}
}

func TestPages_ShowAChangeWithoutAReload(t *testing.T) {
	s := newSite(t, "web", "dns")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	b := newBrowser(t)
	b.open(s.url + "/ui/")
	b.until("web", "dns", "service web")
	eval[chromedp.Void](b, "window.kept = true")
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	b.until("failing", "no route to the firewall", "Needs attention")
	if !eval[bool](b, "window.kept === true") {
		t.Error("the page was loaded again")
	}
	b.accessible()
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(scheme)
		b.accessible()
	}
	b.quiet()
}
