package hcp

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/module"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// valuesFile has the data from Consul. Terraform Enterprise ignores terraform.tfvars.
	valuesFile = "terrapulse.auto.tfvars"

	// modulesFolder has the task's local modules.
	modulesFolder = "modules"

	// movedFile says under which name the module of a renamed task is in the state.
	movedFile = "moved.tf"
)

// firstMoved is the first Terraform that moves a module in the state.
var firstMoved = version.Must(version.NewVersion("1.1.0"))

// upload is the content of a configuration version.
type upload struct {
	archive []byte
	digest  string // of the files and the task's definition
}

// pack returns the root module of a task with its local modules. The same task and data
// give the same digest, in each process.
func pack(job driver.Job, destroy bool) (upload, error) {
	t := *job.Task
	files := map[string]bundle.TreeFile{}
	if t.LocalModule() {
		tree, err := bundle.ModuleOf(job.Config, &t)
		if err != nil {
			return upload{}, fmt.Errorf("upload the module of task %s: %w", t.Name, err)
		}
		for name, f := range tree.Files {
			files[path.Join(modulesFolder, name)] = f
		}
		t.Module = "./" + path.Join(modulesFolder, tree.Module)
	}
	root := rootOf(job, &t)
	rendered, err := root.Files()
	if err != nil {
		return upload{}, err
	}
	for _, f := range rendered {
		name := f.Name
		switch name {
		case rootmodule.ProvidersFile: // no values: they are variables of the workspace
			continue
		case rootmodule.ValuesFile:
			name = valuesFile
		}
		var content bytes.Buffer
		if err := f.Render(&content); err != nil {
			return upload{}, fmt.Errorf("write %s of task %s: %w", name, t.Name, err)
		}
		files[name] = bundle.TreeFile{Content: content.Bytes()}
	}
	if from := formerNames(job); len(from) > 0 && t.Module != "" {
		if v := root.Terraform; v != nil && v.LessThan(firstMoved) {
			return upload{}, fmt.Errorf("task %s: Terraform %s cannot move the state of task %s: set its terraform_version to %s or later", t.Name, v, from[0], firstMoved)
		}
		files[movedFile] = bundle.TreeFile{Content: movedBlocks(t.Name, from)}
	}
	return archive(files, fmt.Sprintf("destroy %v, definition %s\n", destroy, job.Task.Digest(job.Config)))
}

// formerNames are the names that the task had before, the latest first.
func formerNames(job driver.Job) []string {
	if moves := job.Run.Moves; moves != nil {
		return state.Names(moves.From, job.Task.MovedFrom)
	}
	return job.Task.MovedFrom
}

// movedBlocks move resources of any former name to the module of the task: each block to the
// next later name, because Terraform moves only one module to a place.
func movedBlocks(name string, formers []string) []byte {
	var blocks []byte
	for _, former := range formers {
		blocks = fmt.Appendf(blocks, "moved {\n  from = module.%s\n  to   = module.%s\n}\n", former, name)
		name = former
	}
	return blocks
}

// rootOf is the root module of a task. Its module may be at another place than that of the job.
func rootOf(job driver.Job, t *config.Task) rootmodule.Module {
	root := rootmodule.Module{Config: job.Config, Task: t, Blocks: job.Snapshot.Blocks, Changes: job.Changes,
		Types: module.VariableTypes(job.Task, job.Task.WorkingDir)}
	if v := t.Cloud.TerraformVersion; v != "" {
		root.Terraform, _ = version.NewVersion(v) // the newest rules if it is not a version
	}
	return root
}

// archive packs files. The times in the archive are always the same. The digest also covers
// what a plan depends on and the files do not show, such as the arguments of providers.
func archive(files map[string]bundle.TreeFile, other string) (upload, error) {
	sum := sha256.New()
	io.WriteString(sum, other)
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return upload{}, err
	}
	out := tar.NewWriter(io.MultiWriter(zipped, sum))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Content)), ModTime: time.Unix(0, 0)}
		if f.Executable {
			h.Mode = 0o755
		}
		if err := out.WriteHeader(h); err != nil {
			return upload{}, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := out.Write(f.Content); err != nil {
			return upload{}, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := out.Close(); err != nil {
		return upload{}, err
	}
	if err := zipped.Close(); err != nil {
		return upload{}, err
	}
	return upload{archive: packed.Bytes(), digest: hex.EncodeToString(sum.Sum(nil))}, nil
}
