package rootmodule

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/base/tfvars"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// largeModule is a task with n services and n catalog services.
func largeModule(n int) Module {
	m := plainModule()
	m.Blocks = []consul.Block{{Variable: servicesVariable, Entries: catalog(n)}, {Variable: catalogVariable}}
	services := make(condition.CatalogEntries, n)
	for i := range services {
		services[i] = condition.CatalogService{Name: fmt.Sprintf("service-%d", i), Tags: []string{"v1", "é \"q\" ${x}"}}
	}
	m.Blocks[1].Entries = services
	return m
}

// received applies the module and returns what its inputs were, as JSON.
func received(t *testing.T, m Module, declared string) (services, catalog any) {
	t.Helper()
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "module", "main.tf"), declared+`
variable "catalog_services" { type = map(list(string)) }
resource "terraform_data" "services" { input = jsonencode(var.services) }
resource "terraform_data" "catalog" { input = jsonencode(var.catalog_services) }
`)
	m.Config.Terraform.Backend = config.Backend{Type: "local"}
	if _, err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	terraform(t, dir, "init", "-input=false")
	terraform(t, dir, "apply", "-auto-approve", "-input=false")
	var state struct {
		Values struct {
			Root struct {
				Children []struct {
					Resources []struct {
						Name   string
						Values struct{ Input string }
					}
				} `json:"child_modules"`
			} `json:"root_module"`
		}
	}
	if err := json.Unmarshal([]byte(terraform(t, dir, "show", "-json")), &state); err != nil {
		t.Fatal(err)
	}
	for _, r := range state.Values.Root.Children[0].Resources {
		into := &services
		if r.Name == "catalog" {
			into = &catalog
		}
		if err := json.Unmarshal([]byte(r.Values.Input), into); err != nil {
			t.Fatal(err)
		}
	}
	return services, catalog
}

func TestModule_ReceivesAGroupedInputAsItWouldUngrouped(t *testing.T) {
	const n = groupedFrom + tfvars.GroupSize/2
	whole := strings.TrimPrefix(condition.ServicesKind.Variable.Declaration(""), "\n# Service definition protocol v0\n")
	for name, declared := range map[string]string{
		"whole type":            whole,
		"some attributes":       "variable \"services\" {\n  type = map(object({ name = string, port = number, meta = map(string) }))\n}\n",
		"other attribute types": "variable \"services\" {\n  type = map(object({ name = string, port = string, tags = set(string) }))\n}\n",
		"any type":              "variable \"services\" {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := largeModule(n)
			m.Types = map[string]string{servicesVariable: typeText(declared)}
			services, catalogs := received(t, m, declared)

			// The module as it was before inputs were grouped: one entry less than
			// groupedFrom at a time, put together here.
			wantServices, wantCatalog := map[string]any{}, map[string]any{}
			for from := 0; from < n; from += groupedFrom - 1 {
				part := largeModule(n)
				to := min(from+groupedFrom-1, n)
				part.Blocks[0].Entries = part.Blocks[0].Entries.(condition.Instances)[from:to]
				part.Blocks[1].Entries = part.Blocks[1].Entries.(condition.CatalogEntries)[from:to]
				s, c := received(t, part, declared)
				for key, v := range s.(map[string]any) {
					wantServices[key] = v
				}
				for key, v := range c.(map[string]any) {
					wantCatalog[key] = v
				}
			}
			if diff := cmp.Diff(any(wantServices), services); diff != "" {
				t.Errorf("services differ (-ungrouped +grouped):\n%s", diff)
			}
			if diff := cmp.Diff(any(wantCatalog), catalogs); diff != "" {
				t.Errorf("catalog_services differ (-ungrouped +grouped):\n%s", diff)
			}
		})
	}
}

// typeText is the type expression of a declaration.
func typeText(declared string) string {
	_, text, ok := strings.Cut(declared, "type = ")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSpace(text), "}")
}

func TestFiles_GroupOnlyALargeInput(t *testing.T) {
	for _, n := range []int{groupedFrom - 1, groupedFrom} {
		m := largeModule(n)
		m.Blocks[1].Entries = m.Blocks[1].Entries.(condition.CatalogEntries)[:1]
		dir := t.TempDir()
		if _, err := m.Write(dir); err != nil {
			t.Fatal(err)
		}
		files := contents(t, dir)
		grouped := n == groupedFrom
		if got := strings.Contains(files[MainFile], "services         = merge(values(var.services)...)"); got != grouped {
			t.Errorf("%d services: grouped in %s is %v:\n%s", n, MainFile, got, files[MainFile])
		}
		if got := strings.Contains(files[ValuesFile], `"000000" = {`); got != grouped {
			t.Errorf("%d services: grouped in %s is %v", n, ValuesFile, got)
		}
		if !strings.Contains(files[VariablesFile], condition.CatalogServicesKind.Variable.Declaration("")) {
			t.Errorf("%d services: the small input is declared differently:\n%s", n, files[VariablesFile])
		}
	}
}

func TestGroupedType_IsTheModulesOwnWhereThatHasFewerAttributes(t *testing.T) {
	m := largeModule(groupedFrom)
	whole, _ := typeOf(condition.ServicesKind.Variable, nil)
	for declared, want := range map[string]string{
		"map(object({ name = string, port = number }))":            "map(object({name=string,port=number}))",
		"map(object({\n    name = string # of it\n  }))":           "map(object({name=string}))",
		"map(object({ name = string, port = string }))":            whole,
		"map(object({ name = string, other = optional(string) }))": whole,
		"map(object({ name = optional(string) }))":                 "map(object({name=string}))",
		"map(object({ name = optional(string, \"x\") }))":          whole,
		"map(any)": whole,
		"any":      whole,
		"":         whole,
		"map(":     whole,
	} {
		m.Types = map[string]string{servicesVariable: declared}
		if got := m.groupedType(condition.ServicesKind.Variable); got != want {
			t.Errorf("%q: got %s, want %s", declared, got, want)
		}
	}
	if got := m.groupedType(condition.CatalogServicesKind.Variable); got != "map(list(string))" {
		t.Errorf("catalog_services: got %s", got)
	}
}

func TestModule_PortsAreForModulesThatDeclareThem(t *testing.T) {
	for _, n := range []int{2, groupedFrom} {
		m := largeModule(n)
		without := allFiles(t, m)
		m.Blocks[0].Entries.(condition.Instances)[0].Ports = map[string]int{"http": 8080, "grpc": 9090}
		for _, declared := range []string{"", "any", "map(any)", "map(object({ id = string, port = number }))"} {
			m.Types = nil
			if declared != "" {
				m.Types = map[string]string{servicesVariable: declared}
			}
			plain := m
			plain.Blocks = largeModule(n).Blocks
			if diff := cmp.Diff(allFiles(t, plain), allFiles(t, m)); diff != "" {
				t.Errorf("%d services, declared as %q: a port more shows:\n%s", n, declared, diff)
			}
		}
		if m.Types = nil; n < groupedFrom {
			if diff := cmp.Diff(without, allFiles(t, m)); diff != "" {
				t.Errorf("-before +now:\n%s", diff)
			}
		}
		for _, declared := range []string{
			"map(object({ id = string, ports = map(number) }))",
			"map(object({ id = string, ports = optional(map(number)) }))",
		} {
			m.Types = map[string]string{servicesVariable: declared}
			services, _ := received(t, m, "variable \"services\" {\n  type = "+declared+"\n}\n")
			withPorts := 0
			for _, s := range services.(map[string]any) {
				if ports := s.(map[string]any)["ports"].(map[string]any); len(ports) > 0 {
					withPorts++
					if ports["http"] != 8080.0 || ports["grpc"] != 9090.0 {
						t.Errorf("ports = %v", ports)
					}
				}
			}
			if withPorts != 1 {
				t.Errorf("%d services, declared as %s: %d have ports", n, declared, withPorts)
			}
		}
	}
}

func TestModule_PortsOfAnotherTypeAreTheModulesOwn(t *testing.T) {
	m := largeModule(2)
	m.Blocks[0].Entries.(condition.Instances)[0].Ports = map[string]int{"http": 8080}
	for declared, want := range map[string]any{
		"optional(list(string), [\"none\"])":  []any{"none"},
		"optional(object({ http = string }))": nil,
		"optional(map(string))":               map[string]any{"http": "8080"},
	} {
		m.Types = map[string]string{servicesVariable: "map(object({ id = string, ports = " + declared + " }))"}
		services, _ := received(t, m, "variable \"services\" {\n  type = "+m.Types[servicesVariable]+"\n}\n")
		found := false
		for _, s := range services.(map[string]any) {
			found = found || cmp.Equal(want, s.(map[string]any)["ports"])
		}
		if !found {
			t.Errorf("ports declared as %s: the services are %v", declared, services)
		}
	}
}

// allFiles are the files of the module by name.
func allFiles(t *testing.T, m Module) map[string]string {
	t.Helper()
	files, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		var text strings.Builder
		if err := f.Render(&text); err != nil {
			t.Fatal(err)
		}
		texts[f.Name] = text.String()
	}
	return texts
}
