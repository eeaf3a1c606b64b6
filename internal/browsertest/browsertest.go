// Package browsertest shows pages to tests in a real browser.
//
// The tests of a package share one browser. Each has a tab with cookies of its own, a
// window of 1200 x 900, and the same fonts on every machine.
package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Patience is how long a page may take to show what a test waits for.
const Patience = 2 * time.Minute

// pictureQuality is that of a picture: letters are sharp, and files are small.
const pictureQuality = 60

// Browser is a tab of the browser. It is for one goroutine.
type Browser struct {
	t   testing.TB
	ctx context.Context

	scriptless bool // pages run no scripts

	mu      sync.Mutex
	console []string // what the browser has complained about
}

// shared is the browser of all tests of this process.
var shared struct {
	sync.Mutex
	ctx context.Context // nil before the first test
	end func()
}

// Main runs the tests of a package, and then ends their browser. It returns the exit
// code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.end != nil {
		shared.end()
	}
	return code
}

// New opens a tab, which is closed with the test.
func New(t testing.TB) *Browser {
	t.Helper()
	ctx, end := chromedp.NewContext(start(t), chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &Browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first action
		t.Fatalf("open a tab: %v", err)
	}
	// Pages behind another tab would pause.
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: "en-GB"}); err != nil { // whatever the machine's is
		t.Fatal(err)
	}
	b.Window(1200, 900)
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

// start returns the context of the running browser.
func start(t testing.TB) context.Context {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.ctx != nil {
		return shared.ctx
	}
	program, folders := testtools.Browser(t), testtools.Fonts(t)
	dir, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Env("FONTCONFIG_FILE="+fonts(t, dir, folders), "TZ=UTC"),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"))
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	end := func() {
		cancel()
		release()
		_ = os.RemoveAll(dir) // of the system's temporary files
	}
	if err := chromedp.Do(ctx); err != nil {
		end()
		t.Fatalf("start the browser: %v", err)
	}
	shared.ctx, shared.end = ctx, end
	return ctx
}

// fonts writes a configuration in which there are only the fonts of the tests.
func fonts(t testing.TB, dir string, folders []string) string {
	t.Helper()
	alias := func(family, font string) string {
		return fmt.Sprintf("<match><test name=\"family\"><string>%s</string></test><edit name=\"family\" mode=\"assign\" binding=\"strong\"><string>%s</string></edit></match>\n", family, font)
	}
	text := "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>\n"
	for _, d := range folders {
		text += "<dir>" + d + "</dir>\n"
	}
	text += "<cachedir>" + filepath.Join(dir, "fonts") + "</cachedir>\n" +
		alias("system-ui", "Inter") + alias("sans-serif", "Inter") + alias("ui-monospace", "JetBrains Mono") + alias("monospace", "JetBrains Mono") + "</fontconfig>\n"
	file := filepath.Join(dir, "fonts.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
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

// Eval returns the value of a script, or that of its promise.
func Eval[T any](b *Browser, script string) T {
	b.t.Helper()
	return Do(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// Open shows an address.
func (b *Browser) Open(url string) { b.t.Helper(); Do(b, chromedp.Navigate(url)) }

// Text returns the visible text of an element.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return Do(b, chromedp.Text(chromedp.CSS(selector)))
}

// Until waits until the text of the page's content has all words.
func (b *Browser) Until(words ...string) {
	b.t.Helper()
	missing, text := "", ""
	b.wait(func() bool {
		missing = ""
		for _, w := range words {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		return missing == ""
	}, &text, chromedp.Text(chromedp.CSS("main")), func() string { return fmt.Sprintf("the page never shows %q:\n%s", missing, text) })
}

// Comes waits until the window shows the page whose address has this part.
func (b *Browser) Comes(part string) {
	b.t.Helper()
	address := ""
	b.wait(func() bool { return strings.Contains(address, part) }, &address,
		chromedp.Evaluate[string]("document.readyState === 'complete' ? location.href : ''"), func() string { return "no page comes with " + part })
}

// Holds waits until a script returns true.
func (b *Browser) Holds(script string) {
	b.t.Helper()
	got := ""
	b.wait(func() bool { return got == "true" }, &got, chromedp.Evaluate[string]("String("+script+")"), func() string { return "never: " + script })
}

// wait reads a value until it is as it should be. While the next page comes, there is
// none.
func (b *Browser) wait(holds func() bool, value *string, read chromedp.Action[string], problem func() string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	for {
		got, err := chromedp.Run(ctx, read)
		if err == nil {
			if *value = got; holds() {
				return
			}
		}
		if ctx.Err() != nil {
			b.t.Fatal(problem())
		}
		time.Sleep(20 * time.Millisecond)
	}
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

// Complaints returns what the browser has complained about, and forgets it.
func (b *Browser) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.console
	b.console = nil
	return all
}

// Window sets the size of the window.
func (b *Browser) Window(width, height int64) {
	b.t.Helper()
	Do(b, chromedp.EmulateViewport(width, height))
}

// Prefers sets the color scheme that the viewer prefers: light or dark.
func (b *Browser) Prefers(scheme string) {
	b.t.Helper()
	b.media("", scheme)
}

// Prints shows the page as it is printed.
func (b *Browser) Prints() {
	b.t.Helper()
	b.media("print", "light")
}

func (b *Browser) media(media, scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// Zone sets the time zone of the viewer, such as Europe/Berlin; at first it is UTC.
func (b *Browser) Zone(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name}); err != nil {
		b.t.Fatal(err)
	}
}

// WithoutScripts lets pages that are opened from now on run no scripts.
func (b *Browser) WithoutScripts() {
	b.t.Helper()
	b.scriptless = true
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

// Behind opens pages from now on as a tab that is behind another one.
func (b *Browser) Behind() {
	b.t.Helper()
	const script = "window.behind = true; Object.defineProperty(Document.prototype, 'hidden', { get: () => window.behind })"
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		b.t.Fatal(err)
	}
}

// Front brings the tab of a page to the front that was opened behind another one.
func (b *Browser) Front() {
	b.t.Helper()
	Eval[bool](b, "window.behind = false; document.dispatchEvent(new Event('visibilitychange'))")
}

// Accessible fails the test for everything on the page that violates WCAG 2.2 AA.
func (b *Browser) Accessible() { b.t.Helper(); b.violates("minor", "moderate", "serious", "critical") }

// Usable fails the test for what keeps people from using the page: the serious violations of
// Accessible.
func (b *Browser) Usable() { b.t.Helper(); b.violates("serious", "critical") }

// violates fails the test for violations with one of these impacts.
func (b *Browser) violates(impacts ...string) {
	b.t.Helper()
	axe, err := os.ReadFile(testtools.Axe(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	if !Eval[bool](b, "typeof axe === 'object'") {
		Eval[chromedp.Void](b, string(axe))
	}
	found := Eval[string](b, `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => JSON.stringify(r.violations.filter(v => '`+strings.Join(impacts, " ")+`'.includes(v.impact ?? 'minor')).map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html).join(' | '))))`)
	if found != "[]" {
		b.t.Errorf("%s: violations: %s", Eval[string](b, "location.href"), found)
	}
}

//go:embed seen.js
var seen string

// ask evaluates a call of a function of seen.js.
func ask[T any](b *Browser, function string, args ...any) T {
	b.t.Helper()
	raw, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		b.t.Fatal(err)
	}
	return Eval[T](b, "(() => {"+seen+"\nreturn "+function+"(..."+string(raw)+")})()")
}

// Click clicks the button, link or summary that has these words, and waits for the
// page to which it leads. A page that changes just then may move what is under the mouse:
// like a person, Click tries again.
func (b *Browser) Click(words string) {
	b.t.Helper()
	for missed := true; missed; {
		at := ask[[]float64](b, "place", words)
		if len(at) != 2 {
			b.t.Fatalf("nobody can click %q:\n%s", words, b.Text("body"))
		}
		Do(b, chromedp.MouseClickXY(at[0], at[1]))
		missed = !b.scriptless && b.missed()
	}
}

// missed reports whether the latest click hit something else. While the next page comes,
// there is nothing to read.
func (b *Browser) missed() bool {
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	missed, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("window.hit === false"))
	return err == nil && missed
}

// Unfold opens everything on the page that can be opened.
func (b *Browser) Unfold() { b.t.Helper(); ask[bool](b, "unfold") }

// Fill writes into the field with a label.
func (b *Browser) Fill(label, text string) {
	b.t.Helper()
	if !ask[bool](b, "focus", label) {
		b.t.Fatalf("no field has the label %q", label)
	}
	Do(b, chromedp.KeyEvent(text))
}

// Press presses keys, such as kb.Tab.
func (b *Browser) Press(keys string) { b.t.Helper(); Do(b, chromedp.KeyEvent(keys)) }

// Focused returns the name of what has the focus; "" if nothing has it.
func (b *Browser) Focused() string { b.t.Helper(); return ask[string](b, "focused") }

// TabTo presses the tab key until something with these words has the focus.
func (b *Browser) TabTo(words string) {
	b.t.Helper()
	for range 500 {
		b.Press(kb.Tab)
		if strings.Contains(b.Focused(), words) {
			return
		}
	}
	b.t.Fatalf("the tab key does not reach %q", words)
}

// Missed returns what people can act on with a mouse, but the tab key does not reach,
// and what does not show that it has the focus.
func (b *Browser) Missed() []string {
	b.t.Helper()
	n := ask[int](b, "mark")
	for range n + 2 { // the browser itself has the focus in between
		b.Press(kb.Tab)
		ask[bool](b, "unmark")
	}
	return ask[[]string](b, "marked")
}

// Wide returns what is not reachable without scrolling sideways.
func (b *Browser) Wide() []string { b.t.Helper(); return ask[[]string](b, "wide") }

// Picture returns what a window of a size shows, as WebP with two dots for each pixel.
func (b *Browser) Picture(width, height int64) []byte {
	b.t.Helper()
	Do(b, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(2)))
	shown, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: new(int64(pictureQuality))})
	if err != nil {
		b.t.Fatal(err)
	}
	return shown.Data
}
