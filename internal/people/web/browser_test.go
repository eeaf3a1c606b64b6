package web_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

func TestPages_ShowAChangeWithoutAReload(t *testing.T) {
	s := newSite(t, "web", "dns")
	s.write("web", s.ran("web", state.RunSucceeded, "service web: +web-1"))
	b := browsertest.New(t)
	b.Open(s.url + "/ui/")
	b.Until("web", "dns", "service web")
	browsertest.Eval[chromedp.Void](b, "window.kept = true")
	s.write("web", s.ran("web", state.RunFailed, "no route to the firewall"))
	b.Until("failing", "no route to the firewall", "Needs attention")
	if !browsertest.Eval[bool](b, "window.kept === true") {
		t.Error("the page was loaded again")
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Prefers(scheme)
		b.Accessible()
	}
	b.Quiet()
}
