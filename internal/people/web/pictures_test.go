package web_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var pictures = flag.Bool("pictures", false, "write the pictures of the documentation")

// maxPicture is how many bytes a picture may have.
const maxPicture = 150 << 10

// shots are the pictures of the documentation.
func (n *network) shots() []shot {
	return []shot{
		{"tasks", "/ui/tasks", 1200, 800, []string{"Needs attention", "edge-firewall", "mia@example.com", "All tasks"}, []string{"README.md", "docs/pages.md"}},
		{"task", "/ui/tasks/edge-firewall", 1200, 1000, []string{"edge-firewall", "Approve", "web-3"}, []string{"docs/pages.md"}},
		{"run", "/ui/tasks/dns-internal/runs/" + n.failed, 1200, 700, []string{"connection refused", "Error: updating record"}, []string{"docs/pages.md"}},
		{"map", "/ui/map", 1200, 800, []string{"edge-firewall", "What in Consul feeds which tasks"}, []string{"docs/pages.md"}},
		{"phone", "/ui/tasks", 390, 700, []string{"edge-firewall"}, []string{"docs/pages.md"}},
	}
}

// shot is a picture of a page.
type shot struct {
	name, path    string
	width, height int64
	words         []string // that are on the page
	docs          []string // which show the picture
}

// The test does not compare pictures: it finds those that are missing, that no document
// shows, or whose page is no longer what the documents say.
// `go test ./internal/people/web -run Pictures -pictures` writes them.
func TestPictures_ShowPagesAsTheyAre(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	top := testtools.Root(t)
	dir := filepath.Join(top, "docs", "pictures")
	known := map[string]bool{}
	for _, s := range n.shots() {
		b.Window(s.width, s.height)
		b.Open(n.url + s.path)
		b.Until(s.words...)
		for _, scheme := range []string{"light", "dark"} {
			name := fmt.Sprintf("%s-%s.webp", s.name, scheme)
			file := filepath.Join(dir, name)
			known[name] = true
			if *pictures {
				b.Prefers(scheme)
				if err := os.WriteFile(file, b.Picture(s.width, s.height), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			switch info, err := os.Stat(file); {
			case err != nil:
				t.Error(err)
			case info.Size() > maxPicture || info.Size() < 5<<10:
				t.Errorf("%s has %d bytes", name, info.Size())
			}
			for _, doc := range s.docs {
				raw, err := os.ReadFile(filepath.Join(top, doc))
				if err != nil {
					t.Fatal(err)
				}
				at, err := filepath.Rel(filepath.Dir(filepath.Join(top, doc)), file)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(raw), filepath.ToSlash(at)) {
					t.Errorf("%s does not show %s", doc, name)
				}
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is a picture that no test writes", f.Name())
		}
	}
}
