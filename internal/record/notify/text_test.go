package notify_test

import (
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestLines_SayWhetherResourcesWereChanged(t *testing.T) {
	for kind, want := range map[outbox.Kind]string{
		outbox.RunSucceeded: "Resources: 1 added, 2 changed, 3 destroyed",
		outbox.RunWaiting:   "Resources: 1 to add, 2 to change, 3 to destroy",
		outbox.DriftFound:   "Resources: 1 to add, 2 to change, 3 to destroy",
	} {
		lines := notify.Lines(outbox.Event{Kind: kind, Task: "web", Changes: &state.Changes{Add: 1, Change: 2, Destroy: 3}})
		if !slices.Contains(lines, want) {
			t.Errorf("%s: %q lacks %s", kind, lines, want)
		}
	}
}

func TestLines_SayWhereToLook(t *testing.T) {
	for want, e := range map[string]outbox.Event{
		"See: https://a.example.com/ui/tasks/web":                          {Kind: outbox.RunWaiting, Task: "web", URL: "https://a.example.com/ui/tasks/web"},
		"In HCP Terraform: https://hcp/1":                                  {Kind: outbox.RunFailed, Task: "web", RemoteURL: "https://hcp/1"},
		"See: terrapulse ui -stack=network":                                {Kind: outbox.RunWaiting, Task: "web", Stack: "network"},
		"To approve: terrapulse approve -plan=3f9c21aa -stack=network web": {Kind: outbox.RunWaiting, Task: "web", Stack: "network", WaitFor: state.WaitApproval, Plan: "3f9c21aa-9f0e-4f5c-9c39-6c7e5b7b1a55"},
	} {
		if lines := notify.Lines(e); !slices.Contains(lines, want) {
			t.Errorf("%q lacks %s", lines, want)
		}
	}
}
