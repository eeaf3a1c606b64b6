package web_test

import (
	"io"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/state"
)

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
