package infra_test

import (
	"crypto/sha256"
	"fmt"
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
	if err != nil || len(files) != 5 {
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

// The workflow that deploys into an account gives the template parameters and values that it has.
func TestWorkflows_VerifyWithExistingParameters(t *testing.T) {
	var workflow struct {
		Jobs struct {
			Verify struct {
				Strategy struct {
					Matrix struct {
						Include []struct{ Name, Parameters string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/verify-aws.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	parameters, given := written(t).Parameters, 0
	for _, set := range workflow.Jobs.Verify.Strategy.Matrix.Include {
		for _, m := range regexp.MustCompile(`(\w+)=(\$\{\{[^}]*\}\}|\S*)`).FindAllStringSubmatch(set.Parameters, -1) {
			given++
			p, ok := parameters[m[1]]
			if !ok || !strings.HasPrefix(m[2], "$") && !regexp.MustCompile(p.AllowedPattern).MatchString(m[2]) {
				t.Errorf("%s: the template does not accept %s", set.Name, m[0])
			}
		}
	}
	if given < 7 {
		t.Errorf("found %d parameters", given)
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

// A tag of an action or an image can be moved to other code, which then has the rights of the release
// or of the deployment.
func TestWorkflows_WhatRunsWithRightsIsPinned(t *testing.T) {
	pinned, commits := regexp.MustCompile(`^([\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$`), map[string]string{}
	for _, file := range []string{".github/workflows/check.yml", ".github/workflows/release.yml", ".github/workflows/site.yml", ".github/workflows/verify-aws.yml", "examples/ci/github/terrapulse.yml", "examples/ci/daemon/github.yml"} {
		uses := regexp.MustCompile(`(?m)\buses: (.*)$`).FindAllStringSubmatch(read(t, file), -1)
		if len(uses) == 0 {
			t.Errorf("%s uses no action", file)
		}
		for _, u := range uses {
			m := pinned.FindStringSubmatch(u[1])
			if m == nil {
				t.Errorf("%s uses %s: name its commit, with the version as a comment", file, u[1])
				continue
			}
			if before := commits[m[1]]; before != "" && before != m[2] {
				t.Errorf("%s uses two commits of %s", file, m[1])
			}
			commits[m[1]] = m[2]
		}
		if strings.Contains(read(t, file), "@latest") {
			t.Errorf("%s installs the latest version of something", file)
		}
	}
	if base := regexp.MustCompile(`(?m)^ARG BASE=(\S+)$`).FindStringSubmatch(read(t, "infra/runner/Containerfile")); base == nil || !regexp.MustCompile(`@sha256:[0-9a-f]{64}$`).MatchString(base[1]) {
		t.Errorf("the base of the images is %v, without its digest", base)
	}
	release := read(t, ".github/workflows/release.yml")
	checked, published := strings.Index(release, `tools/release/digest "$TERRAFORM_IMAGE"`), strings.Index(release, "make release")
	if checked < 0 || checked > published {
		t.Error("the digest of TerraformImage is not checked before the release is built")
	}
}

// The digest of a release is reviewed by a person, and must be what the registry has.
func TestDigest_RefusesAnotherImageThanTheRegistryHas(t *testing.T) {
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("needs sha256sum")
	}
	dir := t.TempDir()
	const index, single = `{"manifests":[{"platform":{"architecture": "amd64"}},{"platform":{"architecture":"arm64"}}]}`, `{"manifests":[{"platform":{"architecture":"amd64"}}]}`
	_, image, _ := strings.Cut(read(t, "template.yaml"), "\n  TerraformImage:\n")
	image = regexp.MustCompile(`Default: (\S+):`).FindStringSubmatch(image)[1]
	reference := func(content string) string { return fmt.Sprintf("%s@sha256:%x", image, sha256.Sum256([]byte(content))) }
	for _, tt := range []struct {
		name, registry, given string
		ok                    bool
	}{
		{"the index", index, reference(index), true},
		{"a moved tag", index + " ", reference(index), false},
		{"one processor", single, reference(single), false},
		{"a tag", index, image + ":1.16.4", false},
	} {
		docker := "#!/bin/sh\ncat <<'END' | head -c -1\n" + tt.registry + "\nEND\n"
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(testtools.Root(t), "tools", "release", "digest"), tt.given)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); (err == nil) != tt.ok {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
		}
	}
	for _, given := range []string{image + ":1.16.4", image + "@sha256:12"} {
		cmd := exec.CommandContext(t.Context(), "go", "run", "./tools/release", "-version", "v0.0.1", "-to", filepath.Join(dir, "out"), "-terraform-image", given)
		cmd.Dir = testtools.Root(t)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "name it with its digest") {
			t.Errorf("a release with %s: %v\n%s", given, err, out)
		}
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
