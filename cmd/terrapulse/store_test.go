package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/stores"
)

func TestStore_LiesInWorkingDirUnlessItIsNamed(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	config := func(name, task string) string {
		file := s.config(s.task(task, onWeb))
		text := strings.Replace(s.read("tasks.hcl"), s.path("work"), name, 1) // relative, as people write it
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		return s.write(name+".hcl", text)
	}
	one, two := config("one", "lb"), config("two", "pages")
	t.Setenv("TERRAPULSE_STORE", "")
	t.Chdir(s.dir)

	for _, file := range []string{one, two} {
		wantCode(t, s.bare("start", "-once", "-config-file", file), exitOK)
	}
	for _, name := range []string{"one", "two"} {
		if info, err := os.Stat(s.path(filepath.Join(name, stores.DefaultFile))); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the store of %s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(s.path(stores.DefaultFile)); err == nil {
		t.Error("there is a store in the folder where the program was started")
	}

	for file, tasks := range map[string][2]string{one: {"lb", "pages"}, two: {"pages", "lb"}} {
		r := s.bare("status", "-config-file", file)
		wantCode(t, r, exitOK)
		wantText(t, r.stdout, tasks[0])
		if strings.Contains(r.stdout, tasks[1]) {
			t.Errorf("the status of %s shows a task of another instance:\n%s", file, r.stdout)
		}
		wantCode(t, s.bare("runs", "-config-file", file, tasks[0]), exitOK)
		wantCode(t, s.bare("logs", "-config-file", file, tasks[0]), exitOK)
		wantText(t, s.bare("logs", "-config-file", file, tasks[1]).stderr, "there is no task and no run")
	}

	// A mistake elsewhere in the files does not hide the store.
	s.write("one.hcl", s.read("one.hcl")+"\nnonsense = 1\n")
	r := s.bare("status", "-config-file", one)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "lb")
	s.write("one.hcl", s.read("one.hcl")+"\n{\n")
	r = s.bare("status", "-config-file", one)
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "one.hcl", "not valid HCL")
}

func TestStore_WithoutTaskFilesIsInTheDefaultWorkingDir(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	t.Setenv("TERRAPULSE_STORE", "")
	t.Chdir(s.dir)
	r := s.bare("status")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, filepath.Join("sync-tasks", stores.DefaultFile), "-config-file", "-store")

	s.config(s.task("lb", onWeb))
	text := strings.Replace(s.read("tasks.hcl"), "working_dir", "#", 1)
	file := s.write("tasks.hcl", text)
	wantCode(t, s.bare("start", "-once", "-config-file", file), exitOK)
	r = s.bare("status")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "lb")

	// The store of a cluster is found with its files, too.
	clustered := s.write("clustered.hcl", s.read("tasks.hcl")+"high_availability {\n  cluster {\n    name = \"network\"\n  }\n}\n")
	r = s.bare("status", "-config-file", clustered)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "lb    soon")

	t.Setenv("TERRAPULSE_STORE", "sqlite:"+s.path("named.db"))
	wantCode(t, s.bare("start", "-once", "-config-file", file), exitOK)
	if _, err := os.Stat(s.path("named.db")); err != nil {
		t.Error(err)
	}
}
