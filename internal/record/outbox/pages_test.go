package outbox_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

func TestPages_LinkIsToWhatTheEventIsAbout(t *testing.T) {
	at := outbox.Pages{URL: "https://terrapulse.example.com", Stack: "network"}
	for want, e := range map[string]outbox.Event{
		"tasks/web/runs/r1": {Kind: outbox.RunFailed, Task: "web", Run: "r1"},
		"tasks/web":         {Kind: outbox.RunWaiting, Task: "web", Run: "r1"},
		"tasks/a%2Fb":       {Kind: outbox.TaskUnreadable, Task: "a/b"},
		"tasks":             {Kind: outbox.TaskForgotten, Task: "web"},
		"health":            {Kind: outbox.ConsulLost},
	} {
		if got := at.Of(e); got.URL != "https://terrapulse.example.com/ui/"+want {
			t.Errorf("%s: %q, want %s", e.Kind, got.URL, want)
		}
	}
	if got := (outbox.Pages{Stack: "network"}).Of(outbox.Event{Kind: outbox.RunFailed}); got.URL != "" || got.Stack != "network" {
		t.Errorf("in AWS: %q, %q", got.URL, got.Stack)
	}
	at.Links = func(runner string) *outbox.Links { return &outbox.Links{Logs: "log of " + runner} }
	if got := at.Of(outbox.Event{Kind: outbox.RunFailed, Runner: "c1"}).Links; got == nil || got.Logs != "log of c1" {
		t.Errorf("links %+v", got)
	}
	if got := at.Of(outbox.Event{Kind: outbox.RunDecided}).Links; got != nil {
		t.Errorf("a run without a container has the links %+v", got)
	}
	if got := (outbox.Pages{}).Of(outbox.Event{Kind: outbox.RunFailed}); got.URL != "" || got.Stack != "" {
		t.Errorf("without an address: %q, %q", got.URL, got.Stack)
	}
}

func TestDelivery_EventHasALinkThatIsNotStored(t *testing.T) {
	b := inMemory(t)
	b.happens("one", noon, "web")
	var got []string
	d := b.delivery(&sink{name: "webhook", fail: func(e outbox.Event) error {
		got = append(got, e.URL)
		return errors.New("not now")
	}})
	for _, d.Pages.URL = range []string{"https://old.example.com", "https://new.example.com"} {
		if _, err := d.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"https://old.example.com/ui/tasks/web", "https://new.example.com/ui/tasks/web"}; !slices.Equal(got, want) {
		t.Errorf("the events link to %q, want %q", got, want)
	}
}
