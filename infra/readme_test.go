package infra_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestReadme_InstallsWhatAReleaseHasInTwoCommandsEach(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(testtools.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, install, _ := strings.Cut(read("README.md"), "\n## Install\n")
	install, _, _ = strings.Cut(install, "\n## ")
	release := read("docs/develop/release.md")
	for _, asset := range regexp.MustCompile(`terrapulse_1\.2\.3_linux_amd64\.[a-z.]+[a-z]`).FindAllString(install, -1) {
		name := strings.NewReplacer("1.2.3", "VERSION", "amd64", "ARCH").Replace(asset)
		if !strings.Contains(release, name) && !strings.Contains(release, strings.Replace(name, "linux", "OS", 1)) {
			t.Errorf("a release has no %s", asset)
		}
	}
	if !strings.Contains(release, "`terrapulse-daemon:VERSION`") || !strings.Contains(install, "/terrapulse-daemon:v1.2.3") {
		t.Error("the image of the daemon is not that of a release")
	}
	image := read("infra/runner/Containerfile")
	for _, volume := range regexp.MustCompile(`-v \S+:(/[a-z/]+)`).FindAllStringSubmatch(install, -1) {
		if !strings.Contains(image, volume[1]) {
			t.Errorf("the image has no folder %s", volume[1])
		}
	}
	if strings.Count(install, "curl -f") != strings.Count(install, "curl ") || !strings.Contains(install, "docker run -d ") {
		t.Errorf("a download must fail without a release, and a container must be started:\n%s", install)
	}
	rows := regexp.MustCompile(`(?m)^\| [^|-].* \| .* \|$`).FindAllString(install, -1)[1:]
	for _, row := range rows {
		if n := len(strings.Split(row, "<br>")); n > 2 {
			t.Errorf("%d commands: %s", n, row)
		}
	}
	if len(rows) < 4 || !strings.Contains(install, "docs/develop/release.md#what-is-published") {
		t.Errorf("%d ways to install, or no link to what is published:\n%s", len(rows), install)
	}
}

// What is published is on one page, so that a release changes one place.
func TestDocs_OnePageSaysWhatIsPublished(t *testing.T) {
	claim := regexp.MustCompile(`(?i)\b(published|public|releases?|released)\b[^.|]*\byet\b|\byet (published|released)\b`)
	root, said, pages := testtools.Root(t), false, 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "dist", "node_modules"}, name):
			return fs.SkipDir
		case !entry.Type().IsRegular() || filepath.Ext(name) != ".md":
			return nil
		}
		pages++
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found := claim.FindString(string(text))
		switch page, err := filepath.Rel(root, file); {
		case err != nil:
			return err
		case filepath.ToSlash(page) == "docs/develop/release.md":
			said = found != ""
		case found != "":
			t.Errorf("%s says %q: that is in docs/develop/release.md alone", page, found)
		}
		return nil
	})
	if err != nil || pages < 50 {
		t.Errorf("%d pages, %v", pages, err)
	}
	if !said {
		t.Error("docs/develop/release.md does not say what is published")
	}
}
