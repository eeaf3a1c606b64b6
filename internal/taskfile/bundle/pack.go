package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Pack packs the files of a configuration: its task files, its local modules with the local modules
// that these call, its variable files, and the files of its checks. A module is packed with its whole folder, except for
// files of Terraform, version control and editors.
func Pack(cfg *config.Config) (Bundle, error) {
	p, m, err := collect(cfg)
	if err != nil {
		return Bundle{}, err
	}
	return p.zip(m)
}

// collect reads everything that belongs into a bundle.
func collect(cfg *config.Config) (*packer, manifest, error) {
	p := &packer{dir: cfg.Dir(), files: map[string]file{}, folders: map[string][]string{}, skip: map[string]bool{}}
	m := manifest{Format: format, Modules: map[string]string{}}
	for _, name := range cfg.Files() {
		rel, err := relative(p.dir, p.abs(name))
		if err == nil {
			err = p.add(rel)
		}
		if err != nil {
			return nil, m, fmt.Errorf("pack task file %s: %w", name, err)
		}
		m.Files = append(m.Files, rel)
	}
	p.skip[p.abs(cfg.WorkingDir)] = true
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		p.skip[p.abs(t.WorkingDir)] = true
		if t.LocalModule() {
			p.reach = max(p.reach, levels(path.Clean(filepath.ToSlash(t.WrittenModule()))))
		}
	}
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		for _, name := range t.VariableFiles {
			rel, err := p.reference(".", name)
			if err == nil {
				err = p.add(rel)
			}
			if err != nil {
				return nil, m, fmt.Errorf("%s: pack variable file %s of task %s: %w", t.Source, name, t.Name, err)
			}
		}
		if !t.LocalModule() {
			continue
		}
		rel, err := p.reference(".", t.WrittenModule())
		if err == nil && m.Modules[rel] == "" {
			m.Modules[rel], err = p.module(rel)
		}
		if err != nil {
			return nil, m, fmt.Errorf("%s: pack the module of task %s: %w", t.Source, t.Name, err)
		}
	}
	checks := slices.Clone(cfg.Rules.Checks)
	for i := range cfg.Tasks {
		checks = append(checks, cfg.Tasks[i].Checks...)
	}
	for _, c := range checks {
		if err := p.program(c.Files, c.Command); err != nil {
			return nil, m, fmt.Errorf("pack the files of check %s: %w", c.Name, err)
		}
	}
	verifications := slices.Clone(cfg.Rules.Verify)
	for i := range cfg.Tasks {
		verifications = append(verifications, cfg.Tasks[i].Verify...)
	}
	for _, v := range verifications {
		if err := p.program(v.Inputs(), v.Command); err != nil {
			return nil, m, fmt.Errorf("pack the files of verification %s: %w", v.Name, err)
		}
	}
	return p, m, nil
}

// program packs the files of a check or a verification; command may be empty.
func (p *packer) program(files, command []string) error {
	for _, name := range files {
		rel, err := p.reference(".", name)
		if err != nil {
			return err
		}
		info, err := os.Stat(p.abs(rel))
		if err == nil && info.IsDir() {
			_, err = p.folder(rel)
		} else if err == nil {
			err = p.add(rel)
		}
		if err != nil {
			return err
		}
	}
	if len(command) == 0 {
		return nil
	}
	program := filepath.ToSlash(command[0])
	if !strings.Contains(program, "/") || path.IsAbs(program) {
		return nil // it is part of the image
	}
	if _, ok := p.files[path.Clean(program)]; !ok {
		return fmt.Errorf("its program %s is not in the bundle: add it to its files", command[0])
	}
	return nil
}

// A packer collects files by their paths relative to dir, which have slashes and may begin with
// several "../".
type packer struct {
	dir     string
	files   map[string]file
	folders map[string][]string // files of packed folders
	skip    map[string]bool     // folders that are not part of a module, absolute
	reach   int                 // how many folders up the task files themselves lead
	size    int64
}

type file struct {
	content    []byte
	executable bool
}

func (p *packer) abs(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(p.dir, filepath.FromSlash(name))
}

// reference returns the target of a path that is written in the folder from. It must lead to the
// same place in a bundle, where dir and its parents have other names.
func (p *packer) reference(from, written string) (string, error) {
	if filepath.IsAbs(written) || path.IsAbs(written) {
		return "", fmt.Errorf("%s is an absolute path, which does not exist on another machine: use a relative one", written)
	}
	rel := path.Join(from, filepath.ToSlash(written))
	real, err := relative(p.dir, p.abs(rel))
	if err == nil && real != rel {
		err = fmt.Errorf("%s leads out of the folder %s and back into it by its name, which differs on another machine: write %s", written, p.dir, "./"+real)
	}
	return rel, err
}

// add packs a file.
func (p *packer) add(rel string) error {
	if _, ok := p.files[rel]; ok {
		return nil
	}
	f, err := os.Open(p.abs(rel))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxBytes-p.size+1))
	if err != nil {
		return err
	}
	p.size += int64(len(content))
	if p.size > maxBytes || len(p.files) >= maxFiles {
		return fmt.Errorf("with %s the bundle has more than %d MB or %d files: move files that no module reads out of the modules' folders",
			p.abs(rel), maxBytes>>20, maxFiles)
	}
	p.files[rel] = file{content, info.Mode()&0o100 != 0}
	return nil
}

// module packs the folder of a module and those of the local modules that it calls, and returns the
// digest of everything.
func (p *packer) module(rel string) (string, error) {
	folders, held := []string{rel}, map[string]bool{}
	for i := 0; i < len(folders); i++ {
		names, err := p.folder(folders[i])
		if err != nil {
			return "", err
		}
		read, err := p.reads(folders[i], names)
		if err != nil {
			return "", err
		}
		for _, name := range append(read, names...) {
			held[name] = true
		}
		called, err := p.calls(folders[i])
		if err != nil {
			return "", err
		}
		for _, next := range called {
			if !slices.Contains(folders, next) {
				folders = append(folders, next)
			}
		}
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(held)) {
		p.files[name].digest(sum, name)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (f file) digest(sum hash.Hash, name string) {
	fmt.Fprintf(sum, "%q %v %d\n", name, f.executable, len(f.content))
	sum.Write(f.content)
}

// calls returns the local modules that the module in a folder calls.
func (p *packer) calls(folder string) ([]string, error) {
	module, diags := tfconfig.LoadModule(p.abs(folder))
	for _, d := range diags {
		if d.Severity != tfconfig.DiagError {
			continue
		}
		at := p.abs(folder)
		if d.Pos != nil {
			at = fmt.Sprintf("%s:%d", d.Pos.Filename, d.Pos.Line)
		}
		return nil, fmt.Errorf("%s: %s: %s", at, d.Summary, d.Detail)
	}
	var local []string
	for _, name := range slices.Sorted(maps.Keys(module.ModuleCalls)) {
		call := module.ModuleCalls[name]
		if !strings.HasPrefix(call.Source, "./") && !strings.HasPrefix(call.Source, "../") && !filepath.IsAbs(call.Source) {
			continue // Terraform downloads it
		}
		rel, err := p.reference(folder, call.Source)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: module %s: %w", call.Pos.Filename, call.Pos.Line, name, err)
		}
		if !tfconfig.IsModuleDir(p.abs(rel)) {
			return nil, fmt.Errorf("%s:%d: module %s: there is no module in %s", call.Pos.Filename, call.Pos.Line, name, call.Source)
		}
		local = append(local, rel)
	}
	return local, nil
}

// outside matches a path in a module that leads out of its folder, up to the next expression.
var outside = regexp.MustCompile(`\$\{path\.module\}((?:/\.\.)+/[^"$%{}\n]*)([$%]?)`)

// reads packs the files beside its own folder that a module reads, as far as its text shows them,
// and returns the files.
func (p *packer) reads(folder string, names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if path.Dir(name) != folder || path.Ext(name) != ".tf" {
			continue
		}
		for n, line := range strings.Split(string(p.files[name].content), "\n") {
			if text := strings.TrimSpace(line); strings.HasPrefix(text, "#") || strings.HasPrefix(text, "//") {
				continue
			}
			for _, m := range outside.FindAllStringSubmatch(line, -1) {
				written := strings.TrimPrefix(m[1], "/")
				if m[2] != "" {
					written = path.Dir(written + "x")
				}
				read, err := p.beside(folder, written)
				if err != nil {
					return nil, fmt.Errorf("%s:%d: %w", p.abs(name), n+1, err)
				}
				all = append(all, read...)
			}
		}
	}
	return all, nil
}

// beside packs a file or folder that a module names. A missing file may be one that the module
// creates.
func (p *packer) beside(folder, written string) ([]string, error) {
	if path.Base(written) == ".." {
		return nil, nil // a parent folder of the module, not a file
	}
	rel, err := p.reference(folder, written)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(p.abs(rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if levels(rel) > p.reach {
		return nil, fmt.Errorf("%s is outside of the folders that the task files name: move it into the module", written)
	}
	if info.IsDir() {
		return p.folder(rel)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is neither a file nor a folder", written)
	}
	return []string{rel}, p.add(rel)
}

// folder packs the files of a folder and its sub-folders, and returns them.
func (p *packer) folder(rel string) ([]string, error) {
	if names, ok := p.folders[rel]; ok {
		return names, nil
	}
	root, err := filepath.EvalSymlinks(p.abs(rel))
	if err != nil {
		return nil, err
	}
	top, err := filepath.EvalSymlinks(p.dir)
	if err != nil {
		return nil, err
	}
	names, err := p.enter(rel, []string{root}, []string{root, top})
	p.folders[rel] = names
	return names, err
}

// enter packs the files of one folder and its sub-folders, and returns them. chain has its own
// path and those of its parents, without symbolic links, which may lead only into the folders within.
func (p *packer) enter(rel string, chain, within []string) ([]string, error) {
	entries, err := os.ReadDir(p.abs(rel))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		if leftBy(e.Name()) || p.skip[p.abs(name)] {
			continue
		}
		real := filepath.Join(chain[len(chain)-1], e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if real, err = p.follow(name, within); err != nil {
				return nil, err
			}
			if slices.Contains(chain, real) {
				return nil, fmt.Errorf("%s is a symbolic link to a parent folder: remove it", p.abs(name))
			}
		}
		inside := []string{name}
		info, err := os.Stat(real)
		switch {
		case err != nil:
		case info.IsDir():
			inside, err = p.enter(name, append(slices.Clip(chain), real), within)
		case info.Mode().IsRegular():
			err = p.add(name)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder: remove it from the module", p.abs(name))
		}
		if err != nil {
			return nil, err
		}
		names = append(names, inside...)
	}
	return names, nil
}

// follow returns the target of a symbolic link. A module from elsewhere must not be able to pack
// any file of this machine.
func (p *packer) follow(name string, within []string) (string, error) {
	real, err := filepath.EvalSymlinks(p.abs(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is a symbolic link to a missing file: remove it", p.abs(name))
	}
	if err != nil {
		return "", err
	}
	for _, root := range within {
		if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
			return real, nil
		}
	}
	return "", fmt.Errorf("%s is a symbolic link to %s, which is outside of the module and of %s: put a copy in its place", p.abs(name), real, p.dir)
}

// leftBy reports whether Terraform, version control, an editor or a desktop created this file or
// folder in a module's folder.
func leftBy(name string) bool {
	switch name {
	case manifestName, ".terraform", ".terraform.lock.hcl", ".terragrunt-cache", ".git", ".gitignore", ".hg", ".svn",
		".idea", ".vscode", ".DS_Store", "Thumbs.db", ".env", "crash.log":
		return true
	}
	return slices.ContainsFunc([]string{"*.tfstate", "*.tfstate.*", ".*.lock.info", "*~", ".#*", "*.swp"}, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// levels returns how many folders a path leads up.
func levels(rel string) int {
	n := 0
	for folder := range strings.SplitSeq(rel, "/") {
		if folder == ".." {
			n++
		}
	}
	return n
}

// zip writes the collected files without compression: so the bytes do not depend on a compressor,
// and a few bytes cannot expand to many.
func (p *packer) zip(m manifest) (Bundle, error) {
	depth := 0
	for rel := range p.files {
		depth = max(depth, levels(rel))
	}
	for rel := range m.Modules { // modules without files
		depth = max(depth, levels(rel))
	}
	m.Dir = path.Clean(strings.Repeat(above+"/", depth))
	names := map[string]string{}
	for rel := range p.files {
		name := path.Join(m.Dir, rel)
		if up := levels(rel); up > 0 && strings.HasPrefix(rel[3*up:]+"/", above+"/") {
			return Bundle{}, fmt.Errorf("the folder %q cannot be packed: its name is reserved in bundles", p.abs(rel))
		}
		if name == manifestName {
			return Bundle{}, fmt.Errorf("the file %s cannot be packed: its name is reserved in bundles", p.abs(rel))
		}
		names[name] = rel
	}

	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	write := func(name string, f file) error {
		h := &zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		if f.executable {
			h.SetMode(0o755)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(f.content)
		}
		return err
	}
	err := write(manifestName, file{content: m.encode()})
	for _, name := range slices.Sorted(maps.Keys(names)) {
		err = errors.Join(err, write(name, p.files[names[name]]))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return Bundle{}, fmt.Errorf("write the bundle: %w", err)
	}
	return Bundle{Digest: digestOf(buf.Bytes()), Zip: buf.Bytes()}, nil
}
