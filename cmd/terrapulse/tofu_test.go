package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestOpenTofuRunsTheTasksWhereItIsAskedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	folder := filepath.Dir(testtools.OpenTofu(t))
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	t.Setenv("PATH", folder)
	file := s.config(s.task("on_tofu", onWeb))
	s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), "driver \"terraform\" {", fmt.Sprintf("driver \"terraform\" {\n  engine = \"tofu\"\n  path   = %q", t.TempDir()), 1))
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantText(t, s.read("on_tofu.txt"), "web 10.0.0.1:8080 passing")
	wantText(t, s.read("work/on_tofu/.terraform.lock.hcl"), "registry.opentofu.org/hashicorp/local")
}
