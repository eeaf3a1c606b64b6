package infra_test

import (
	"os"
	"path/filepath"
	"regexp"
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
	rows := regexp.MustCompile(`(?m)^\| [^|-].* \| .* \|$`).FindAllString(install, -1)[1:]
	for _, row := range rows {
		if n := len(strings.Split(row, "<br>")); n > 2 {
			t.Errorf("%d commands: %s", n, row)
		}
	}
	if len(rows) < 4 || !strings.Contains(install, "docs/develop/release.md#what-is-published") {
		t.Errorf("%d ways to install, or no link to what is published:\n%s", len(rows), install)
	}
	for _, page := range []string{"README.md", "docs/operate.md", "docs/operate-aws.md", "docs/deploy.md", "docs/machine.md", "docs/aws.md"} {
		if strings.Contains(read(page), "published yet") {
			t.Errorf("%s says what is published: that is in docs/develop/release.md alone, so that a release changes one place", page)
		}
	}
}
