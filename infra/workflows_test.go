package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The workflows call targets that the Makefile has.
func TestWorkflows_CallExistingTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(testtools.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(testtools.Root(t), ".github", "workflows", "*.yml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, new(any)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, call := range regexp.MustCompile(`(?m)\bmake ([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^` + call[1] + `:`).Match(makefile) {
				t.Errorf("%s calls make %s, which does not exist", filepath.Base(file), call[1])
			}
		}
	}
}

// A template is published only after its functions are in buckets of the project: the owner of the
// buckets decides what runs in the accounts of the users.
func TestWorkflows_UploadTheFunctionsBeforeTheTemplateIsPublished(t *testing.T) {
	var release struct {
		Jobs map[string]struct {
			Steps []struct{ If, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/release.yml")), &release); err != nil {
		t.Fatal(err)
	}
	uploaded, published := false, false
	for _, step := range release.Jobs["files"].Steps {
		uploaded = uploaded || strings.Contains(step.Run, "tools/release/upload") && step.If == ""
		if strings.Contains(step.Run, "PUBLISH=1") {
			published = true
			if !uploaded {
				t.Error("the template is published before its functions are uploaded")
			}
		}
	}
	if !published {
		t.Error("nothing is published: does this test search the wrong job?")
	}
}

func TestUpload_RefusesABucketOfAnotherAccount(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	// The bucket in us-east-1 belongs to somebody else.
	aws := `#!/bin/sh
case "$*" in
sts*) echo 123456789012 ;;
*head-bucket*us-east-1*owner\ 123456789012) exit 254 ;;
*cp*) echo "$@" >>` + dir + `/uploads ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "aws"), []byte(aws), 0o755); err != nil {
		t.Fatal(err)
	}
	for regions, want := range map[string]bool{"eu-west-1": true, "eu-west-1 us-east-1": false} {
		_ = os.Remove(filepath.Join(dir, "uploads"))
		cmd := exec.CommandContext(t.Context(), sh, filepath.Join(testtools.Root(t), "tools", "release", "upload"), "v1.2.3", dir)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "REGIONS="+regions)
		out, err := cmd.CombinedOutput()
		if _, missing := os.Stat(filepath.Join(dir, "uploads")); (err == nil) != want || (missing == nil) != want {
			t.Errorf("%s: %v, uploaded: %v\n%s", regions, err, missing == nil, out)
		}
	}
}
