package firsttask

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestFiles_LoadWithoutAWarningForAnyName(t *testing.T) {
	for _, services := range [][]string{{"web"}, {"web", "api"}, {"yes"}, {"7"}, {`odd "name": {x}`}, {"-"}, {"ein.dienst_1"}, {"# no comment"}, {"0x1F", "1:20", "~"}, {"two\nlines"}} {
		for _, address := range []string{"localhost:8500", "127.0.0.1:8500", "https://consul.example.com:8501", "unix:///run/consul.sock"} {
			dir, task := t.TempDir(), Task{Name: NameFor(services[0]), Consul: address, Services: services}
			files, err := Files(task)
			if err != nil {
				t.Fatal(err)
			}
			if err := Write(dir, files); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: filepath.Join(dir, File)}}, Getenv: func(string) string { return "" }, Dir: dir})
			if err != nil {
				t.Fatalf("services %q, Consul %s: %v\n%s", services, address, err, files[0].Content)
			}
			if len(cfg.Warnings) > 0 || cfg.Consul.Address != address || len(cfg.Tasks) != 1 || cfg.Tasks[0].Name != task.Name {
				t.Errorf("services %q, Consul %s: %+v, warnings %v", services, address, cfg.Tasks, cfg.Warnings)
			}
			if !cfg.Tasks[0].Guard.HoldEmpty {
				t.Errorf("services %q: the loss of the last entry is applied without a person", services)
			}
			if watched := cfg.Tasks[0].Condition.Spec.(condition.Services); !slices.Equal(watched[0].Names, services) {
				t.Errorf("services %q are watched as %q", services, watched[0].Names)
			}
		}
	}
}

func TestWrite_ReplacesNothingAndLeavesNoPart(t *testing.T) {
	files, err := Files(Task{Name: "web", Consul: "localhost:8500", Services: []string{"web"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, existing := range []string{"tasks.yaml", "web/own.tf", "web"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(existing))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(dir, files); !errors.As(err, new(*ExistsError)) {
			t.Errorf("with a %s: %v", existing, err)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "mine" {
			t.Errorf("%s is %q now, %v", existing, content, err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("with a %s, there is %v, %v", existing, all, err)
		}
	}
}

func TestWrite_RemovesWhatItHasMadeIfAFileCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	err := Write(dir, []Written{{Path: File, Content: []byte("x")}, {Path: "web/\x00.tf"}})
	if err == nil {
		t.Fatal("a name that no file can have was written")
	}
	if left, err := os.ReadDir(filepath.Dir(filepath.Dir(dir))); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
