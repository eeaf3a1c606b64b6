// Package firsttask writes the files of a person's first task: a task file with comments, and a
// module that Terraform plans at once, because it needs no provider that must be downloaded.
package firsttask

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/base/docs"
)

// File is the name of the task file.
const File = "tasks.yaml"

// Task is what a person chooses for a first task.
type Task struct {
	Name     string
	Consul   string   // address of Consul
	Services []string // that the task watches
}

// Written is a file of a first task.
type Written struct {
	Path    string // below the folder, with slashes
	Content []byte
}

//go:embed templates
var templates embed.FS

var texts = template.Must(template.New("").Funcs(template.FuncMap{
	"page": docs.Page,
	"yaml": inYAML,
	"join": func(names []string) string { return strings.Join(names, ", ") },
}).ParseFS(templates, "templates/*"))

// inYAML returns a text or a list of texts as YAML, on one line.
func inYAML(value any) (string, error) {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		return "", err
	}
	if n.Style = yaml.FlowStyle; n.Kind == yaml.ScalarNode {
		n.Style = 0
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	text, err := yaml.Marshal(&n)
	return strings.TrimSuffix(string(text), "\n"), err
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// NameFor returns a valid name of a task that watches a service.
func NameFor(service string) string {
	name := strings.Trim(notInName.ReplaceAllString(service, "-"), "-")
	if name == "" || !regexp.MustCompile(`^[A-Za-z_]`).MatchString(name) {
		name = "task-" + name
	}
	return strings.TrimSuffix(name[:min(len(name), 60)], "-")
}

// Files returns the files of a first task.
func Files(t Task) ([]Written, error) {
	files := []Written{{Path: File}, {Path: t.Name + "/main.tf"}}
	for i, name := range []string{"tasks.yaml.tmpl", "main.tf.tmpl"} {
		var text bytes.Buffer
		if err := texts.ExecuteTemplate(&text, name, t); err != nil {
			return nil, fmt.Errorf("make %s: %w", files[i].Path, err)
		}
		files[i].Content = text.Bytes()
	}
	return files, nil
}

// ExistsError says that a file or folder that would be written is there already.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return e.Path + " is there already: nothing was written" }

// Vacant returns an ExistsError if the folder has something of this name.
func Vacant(dir, name string) error {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return &ExistsError{path}
	}
	return nil
}

// Write writes files into a folder: all of them, or none if one of them, or the folder of a module, is
// there already.
func Write(dir string, files []Written) (err error) {
	for _, f := range files {
		first, _, _ := strings.Cut(f.Path, "/")
		if err := Vacant(dir, first); err != nil {
			return err
		}
	}
	var made []string
	defer func() {
		if err != nil {
			for i := len(made) - 1; i >= 0; i-- {
				_ = os.Remove(made[i]) // a folder stays if something else is in it
			}
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		folders, err := makeFolders(filepath.Dir(path))
		made = append(made, folders...)
		if err != nil {
			return fmt.Errorf("create a folder for %s: %w", path, err)
		}
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return &ExistsError{path}
		}
		if err != nil {
			return fmt.Errorf("write the first task: %w", err)
		}
		made = append(made, path)
		_, err = out.Write(f.Content)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// makeFolders creates a folder and those above it, and returns the new ones, the outer one first.
func makeFolders(dir string) (made []string, err error) {
	if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
		return nil, err
	}
	if made, err = makeFolders(filepath.Dir(dir)); err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, err
	}
	return append(made, dir), nil
}
