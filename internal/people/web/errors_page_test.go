package web_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestPages_OnlyWhatMayComeBackIsTriedAgain(t *testing.T) {
	s := newSite(t, "web")
	for path, again := range map[string]bool{"/ui/nothing": false, "/ui/tasks/nothing": false, "/ui/tasks/web": true} {
		if page, _ := s.page(path); strings.Contains(strings.Split(page, "<h1>")[0], "hx-get=") != again {
			t.Errorf("%s is tried again: %v\n%s", path, !again, page)
		}
	}
}

func TestPages_ListsOfRunsShowTheFirstLineOfAnError(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunFailed, "terraform apply: no route to host\nsecond line of the error"))
	for _, path := range []string{"/ui/runs", "/ui/tasks/web"} {
		s.page(path, `class="error">terraform apply: no route to host<`)
	}
}
