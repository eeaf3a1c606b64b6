package apispec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypes_AreGeneratedFromTheDescription(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	generated := filepath.Join(t.TempDir(), "types.gen.go")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "../../../tools/oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen",
		"-config", filepath.Join(here, "codegen.yaml"), "-o", generated, filepath.Join(here, "openapi.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("types.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `go generate ./internal/people/apispec` (-want +got):\n%s", diff)
	}
}
