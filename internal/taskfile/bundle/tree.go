package bundle

import (
	"cmp"
	"path"
	"path/filepath"
	"strings"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Tree is the folder of a task's local module, with the local modules that it calls and
// the files beside its folder that it reads.
type Tree struct {
	Module string              // path of the module's folder in the tree, with slashes
	Files  map[string]TreeFile // by their paths in the tree
}

// TreeFile is a file of a tree.
type TreeFile struct {
	Content    []byte
	Executable bool
}

// ModuleOf reads the local module of a task, with the files that a bundle would have. All
// of them lie in the tree as they lie on this machine, relative to each other. The module
// may have an absolute path.
func ModuleOf(cfg *config.Config, t *config.Task) (Tree, error) {
	p := &packer{dir: cmp.Or(cfg.Dir(), t.Module), files: map[string]file{}, folders: map[string][]string{}, skip: map[string]bool{}}
	p.skip[p.abs(cfg.WorkingDir)], p.skip[p.abs(t.WorkingDir)] = true, true
	rel, err := relative(p.dir, p.abs(t.Module))
	if err != nil {
		return Tree{}, err
	}
	p.reach = levels(rel)
	if _, err := p.module(rel); err != nil {
		return Tree{}, err
	}
	depth := levels(rel)
	for name := range p.files {
		depth = max(depth, levels(name))
	}
	dir := path.Clean(strings.Repeat(above+"/", depth))
	tree := Tree{Module: path.Join(dir, rel), Files: map[string]TreeFile{}}
	for name, f := range p.files {
		tree.Files[path.Join(dir, filepath.ToSlash(name))] = TreeFile{f.content, f.executable}
	}
	return tree, nil
}
