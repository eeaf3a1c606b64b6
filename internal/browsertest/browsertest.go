// Package browsertest looks at pages with a real browser: the Chromium that `make tools`
// installs.
package browsertest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Browser is a tab of a real browser.
type Browser struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	console []string // what the browser has complained about
}

// Patience is how long a page may take to show what a test waits for.
const Patience = 30 * time.Second

// New starts a browser, which ends with the test.
func New(t testing.TB) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(testtools.Browser(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1200, 900),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &Browser{t: t, ctx: ctx}
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

// Quiet fails the test for everything that the browser complains about, such as what
// the Content-Security-Policy forbids.
func (b *Browser) Quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		b.t.Errorf("the browser says: %s", line)
	}
	b.console = nil
}

// Do runs an action in the tab.
func Do[T any](b *Browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return got
}

// Open opens a page.
func (b *Browser) Open(url string) { b.t.Helper(); Do(b, chromedp.Navigate(url)) }

// Text returns the text that people see in an element.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return Do(b, chromedp.Text(chromedp.CSS(selector)))
}

// Until waits until the text of the page's content has all words.
func (b *Browser) Until(words ...string) {
	b.t.Helper()
	end := time.Now().Add(Patience)
	for {
		text := b.Text("main")
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

// Eval runs a script in the page and returns its value.
func Eval[T any](b *Browser, script string) T {
	b.t.Helper()
	return Do(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// Prefers sets the color scheme that the viewer prefers: light or dark.
func (b *Browser) Prefers(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// Accessible fails the test for everything on the page that violates WCAG 2.2 AA.
func (b *Browser) Accessible() {
	b.t.Helper()
	axe, err := os.ReadFile(testtools.Axe(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	Eval[chromedp.Void](b, string(axe))
	found := Eval[string](b, `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => JSON.stringify(r.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html).join(' | '))))`)
	if found != "[]" {
		b.t.Errorf("violations: %s", found)
	}
}
