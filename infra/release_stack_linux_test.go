package infra_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestRelease_TemplateDeploysWithFunctionsForBothProcessors(t *testing.T) {
	t.Parallel()
	folder := packaged(t)
	stack := rehearsal.Packaged(folder, releaseVersion).Deploy(t, "released", rehearsal.Minimal("127.0.0.1:8500"))
	if stack.Outputs["Version"] != releaseVersion {
		t.Errorf("the template says that its version is %q", stack.Outputs["Version"])
	}
	checkout := deployed(t, "released", rehearsal.Minimal("127.0.0.1:8500"))
	if len(stack.Functions) == 0 || len(stack.Functions) != len(checkout.Functions) {
		t.Errorf("%d functions, want %d", len(stack.Functions), len(checkout.Functions))
	}
	for name, f := range stack.Functions {
		if want := checkout.Functions[name]; f.Handler != want.Handler || len(f.Environment) != len(want.Environment) {
			t.Errorf("%s: %+v, want %+v", name, f, want)
		}
		zips, err := filepath.Glob(filepath.Join(folder, name+"-*.zip"))
		if err != nil || len(zips) != 1 {
			t.Errorf("%s: %v, %v", name, zips, err)
			continue
		}
		content := unzip(t, zips[0])
		machines := map[elf.Machine]bool{}
		for path, program := range content {
			if path == "bootstrap" {
				continue
			}
			binary, err := elf.NewFile(bytes.NewReader(program))
			if err != nil {
				t.Fatalf("%s: %s: %v", name, path, err)
			}
			machines[binary.Machine] = true
			if name == "ReconcileFunction" && !bytes.Contains(program, []byte(releaseVersion)) {
				t.Errorf("%s: %s does not contain its version", name, path)
			}
		}
		if !bytes.HasPrefix(content["bootstrap"], []byte("#!/bin/sh\n")) || !machines[elf.EM_X86_64] || !machines[elf.EM_AARCH64] {
			t.Errorf("%s has programs for %v", name, machines)
		}
	}
	uploads(t, folder)
	output(t, filepath.Join(testtools.Root(t), ".tools", "bin", "cfn-lint"), filepath.Join(folder, "template.yaml"))
}

// uploads checks that the functions are uploaded to the places that the template names.
func uploads(t *testing.T, folder string) {
	t.Helper()
	stubs := t.TempDir()
	if err := os.WriteFile(filepath.Join(stubs, "aws"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(testtools.Root(t), "tools", "release", "upload")
	said := output(t, "env", "PATH="+stubs+":"+os.Getenv("PATH"), "REGIONS=eu-west-1 us-east-1", "sh", script, releaseVersion, folder)
	template, err := os.ReadFile(filepath.Join(folder, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		if !strings.Contains(said, folder+" s3://terrapulse-"+region+"/"+releaseVersion+"/\n") {
			t.Errorf("nothing is uploaded in %s:\n%s", region, said)
		}
	}
	if !strings.Contains(string(template), "Bucket: !Sub terrapulse-${AWS::Region}") || !strings.Contains(string(template), "Key: "+releaseVersion+"/ReconcileFunction-") {
		t.Error("the template names other places than those of the upload")
	}
}

func TestRelease_ImageIsForBothProcessors(t *testing.T) {
	slow(t)
	testtools.OnlyInAll(t)
	name := rehearsal.ReleasedImage(t, "runner", releaseVersion)
	out, err := podman(t, "manifest", "inspect", name)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var list struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var platforms []string
	for _, m := range list.Manifests {
		platforms = append(platforms, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	if slices.Sort(platforms); !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it is for %v", platforms)
	}
	for arch, machine := range map[string]elf.Machine{rehearsal.ARM64: elf.EM_AARCH64, rehearsal.X8664: elf.EM_X86_64} {
		image := name + "-" + arch
		if out, err := podman(t, "image", "inspect", "--format", `{{index .Config.Labels "org.opencontainers.image.version"}}`, image); err != nil || strings.TrimSpace(string(out)) != releaseVersion {
			t.Errorf("%s: the version is %s (%v)", image, out, err)
		}
		container, err := podman(t, "create", image)
		if err != nil {
			t.Fatalf("%v\n%s", err, container)
		}
		lines := strings.Fields(string(container))
		id := lines[len(lines)-1]
		defer podman(t, "rm", id)
		program := filepath.Join(t.TempDir(), "runner")
		if out, err := podman(t, "cp", id+":/usr/local/bin/runner", program); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		binary, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		binary.Close()
		if binary.Machine != machine {
			t.Errorf("%s has a program for %v", image, binary.Machine)
		}
	}
}
