package terraformcli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// tree lists all files below a directory with their content.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && e.Type().IsRegular() {
			raw, rerr := os.ReadFile(path)
			files[path], err = string(raw), rerr
		} else if err == nil {
			files[path] = e.Type().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// cwdModule writes below the directory in which Terraform runs.
const cwdModule = `
variable "services" {}
resource "local_file" "names" {
  filename = "names.txt"
  content  = join(",", sort([for s in var.services : s.name]))
}
resource "terraform_data" "workspace" { input = terraform.workspace }
`

func TestInspect_PlansAndLeavesNothingBehind(t *testing.T) {
	server := consultest.Start(t)
	for name, backend := range map[string]config.Backend{
		"local": {Type: "local"},
		"local elsewhere": {Type: "local", Body: config.Body{Attributes: map[string]cty.Value{
			"path": cty.StringVal("x.tfstate"), "workspace_dir": cty.StringVal("states")}}},
		"consul": {Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
			"address": cty.StringVal(server.Addr()), "path": cty.StringVal("kv/terraform")}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, cwdModule)
			f.cfg.Terraform.Backend = backend
			keys := func() map[string]string {
				pairs, _, err := server.Client().KV().List("", nil)
				if err != nil {
					t.Fatal(err)
				}
				values := map[string]string{}
				for _, p := range pairs {
					values[p.Key] = string(p.Value)
				}
				return values
			}
			inspect := func(services ...string) Plan {
				t.Helper()
				files, values := tree(t, filepath.Dir(f.dir)), keys()
				s, err := f.bin.Inspect(t.Context(), f.dir, func(dir string) error { return f.renderTo(dir, services...) }, f.options())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(files, tree(t, filepath.Dir(f.dir))); diff != "" {
					t.Errorf("the inspection left something behind: %s", diff)
				}
				if diff := cmp.Diff(values, keys()); diff != "" {
					t.Errorf("the inspection left something behind in Consul: %s", diff)
				}
				if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
					t.Errorf("left in the temporary directory: %v", left)
				}
				return s
			}

			// Before the first run: there is no directory and no workspace.
			if err := os.RemoveAll(f.dir); err != nil {
				t.Fatal(err)
			}
			s := inspect("api")
			if !s.Changes || !s.New || len(s.JSON.ResourceChanges) != 2 || s.Summary.Add != 2 || len(s.Summary.Resources) != 2 || !strings.Contains(s.Text, "module.web.local_file.names will be created") {
				t.Errorf("got %+v", s)
			}

			f.render("api")
			f.apply(f.open())
			if s := inspect("api"); s.Changes || s.New || s.Summary.Any() || !strings.Contains(s.Text, "No changes.") {
				t.Errorf("after the run: got %+v", s)
			}
			s = inspect("api", "db")
			want := []state.Resource{{Address: "module.web.local_file.names", Action: "replace"}}
			if diff := cmp.Diff(want, s.Summary.Resources); diff != "" || !s.Changes || s.Summary.Add != 1 || s.Summary.Destroy != 1 {
				t.Errorf("after a change: got %+v, %s", s, diff)
			}
		})
	}
}
