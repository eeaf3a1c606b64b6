package site

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// built makes the site, and returns its folder.
func built(t *testing.T) string {
	t.Helper()
	// mkdocs reads them: a cached result is for the same files.
	for _, file := range []string{"hooks.py", "packages.json", "requirements.txt", "theme/assets/site.css"} {
		if _, err := os.Stat(filepath.FromSlash(file)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(testtools.Site(t), "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", dir)
	cmd.Dir = testtools.Root(t)
	cmd.Env = append(os.Environ(), "NO_MKDOCS_2_WARNING=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the site: %v\n%s", err, out)
	}
	return dir
}

// file returns the path of the file in the site that a page of docs becomes.
func file(page string) string {
	if path.Base(page) == "README.md" {
		return path.Join(path.Dir(page), "index.html")
	}
	return strings.TrimSuffix(page, ".md") + ".html"
}

func TestSite(t *testing.T) {
	testtools.OnlyInAll(t)
	dir := built(t)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)

	t.Run("every link leads to a file, or to the web", func(t *testing.T) { checkLinks(t, dir) })
	t.Run("lists, tables and code are those of the page", func(t *testing.T) { checkForm(t, dir) })
	for _, from := range []string{server.URL, "file://" + filepath.ToSlash(dir)} {
		where, _, _ := strings.Cut(from, ":")
		t.Run("search opens the page about a key, by "+where, func(t *testing.T) {
			b := browsertest.New(t)
			b.Open(from + "/index.html")
			b.Fill("Search", "min_entries")
			b.Holds("document.querySelector('.md-search-result__item')?.innerText.includes('min_entries')")
			b.Click("Rules")
			b.Comes("/reference/rules.html")
			b.Until("min_entries")
			b.Quiet()
		})
	}
	t.Run("a diagram is drawn", func(t *testing.T) {
		b := browsertest.New(t)
		b.Open(server.URL + "/architecture.html")
		b.Holds("document.querySelector('div.mermaid')?.shadowRoot !== undefined")
		b.Quiet()
	})
	t.Run("nothing comes from another host", func(t *testing.T) {
		b := browsertest.New(t)
		for _, page := range []string{"/", "/architecture.html", "/pages.html"} {
			b.Open(server.URL + page)
			b.Holds("document.readyState === 'complete'")
			others := browsertest.Eval[[]string](b, `performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith(location.origin) && !n.startsWith('data:') && !n.startsWith('blob:'))`)
			if len(others) > 0 {
				t.Errorf("%s loads %q", page, others)
			}
			b.Quiet()
		}
	})
	t.Run("pages are accessible", func(t *testing.T) {
		for _, scheme := range []string{"light", "dark"} {
			b := browsertest.New(t)
			b.Prefers(scheme)
			b.Open(server.URL)
			b.Accessible()
			for _, page := range []string{"/reference/rules.html", "/pages.html"} {
				b.Open(server.URL + page)
				b.Usable()
			}
		}
	})
}

var (
	reference = regexp.MustCompile(`(?:href|src|srcset)="?([^"\s>]+)`)
	loaded    = regexp.MustCompile(`<(?:script|img|source|iframe)[^>]*(?:src|srcset)="?(?:https?:)?//|<link[^>]*rel="?(?:stylesheet|preconnect|preload)[^>]*href="?(?:https?:)?//`)
	anchor    = regexp.MustCompile(`\bid="?([^"\s>]+)`)
)

// checkLinks follows all links and sources of all pages.
func checkLinks(t *testing.T, dir string) {
	texts, ids := map[string]string{}, map[string]map[string]bool{}
	for page := range pages(t) {
		name := file(page)
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		texts[name], ids[name] = string(text), map[string]bool{}
		for _, m := range anchor.FindAllStringSubmatch(string(text), -1) {
			ids[name][m[1]] = true
		}
	}
	for name, text := range texts {
		if m := loaded.FindString(text); m != "" {
			t.Errorf("%s loads from another host: %s", name, m)
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") { // https:, mailto:
				continue
			}
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s leads to %s: there is no %s in the site", name, m[1], to)
			}
			if anchor != "" && ids[to] != nil && !ids[to][anchor] && !strings.HasPrefix(anchor, "__") {
				t.Errorf("%s leads to %s: %s has no such heading", name, m[1], to)
			}
		}
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	listItem  = regexp.MustCompile(`(?m)^ *(?:[-*]|\d+\.) `)
	tableRow  = regexp.MustCompile(`(?m)^\|`)
	content   = regexp.MustCompile(`(?s)<article.*</article>`)
)

// checkForm compares what people see with the source, which they also read on GitHub: the
// Markdown of the site differs in how lists are indented.
func checkForm(t *testing.T, dir string) {
	for page := range pages(t) {
		source, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file(page))))
		if err != nil {
			t.Fatal(err)
		}
		shown := content.FindString(string(text))
		rest := codeBlock.ReplaceAllString(string(source), "")
		tables := strings.Count(rest, "\n|---") + strings.Count(rest, "\n| ---") // each has a line that is no row
		for what, counts := range map[string][2]int{
			"blocks of code": {len(codeBlock.FindAllString(string(source), -1)), strings.Count(shown, "<pre")},
			"items of lists": {len(listItem.FindAllString(rest, -1)), strings.Count(shown, "<li>")},
			"rows of tables": {len(tableRow.FindAllString(rest, -1)) - tables, strings.Count(shown, "<tr>")},
		} {
			if counts[0] != counts[1] {
				t.Errorf("docs/%s has %d %s, the site shows %d", page, counts[0], what, counts[1])
			}
		}
	}
}
