package web_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

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

func TestPages_SaysForAMinuteWhatWasDone(t *testing.T) {
	s := newSite(t, "web")
	for path, want := range map[string]bool{fmt.Sprintf("/ui/tasks/web?done=hold&at=%d", time.Now().Unix()): true, "/ui/tasks/web": false} {
		if page, _ := s.page(path); strings.Contains(page, ", every 61s") != want || strings.Contains(page, "You have put the task on hold") != want {
			t.Errorf("%s: the page is shown again after a minute: %v\n%s", path, !want, page)
		}
	}
}

func TestPages_ListsOfRunsShowTheFirstLineOfAnError(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunFailed, "terraform apply: no route to host\nsecond line of the error"))
	for _, path := range []string{"/ui/runs", "/ui/tasks/web"} {
		resp, err := s.get(path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), `class="error">terraform apply: no route to host<`) {
			t.Errorf("%s lists:\n%s", path, body)
		}
	}
}
