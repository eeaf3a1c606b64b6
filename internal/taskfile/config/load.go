package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Options say where the configuration comes from. Except for Paths, the zero values
// fit a program that is started from a shell.
type Options struct {
	// Paths are read in this order, each merged over those before.
	Paths []Path
	// Getenv looks up an environment variable; os.Getenv if nil.
	Getenv func(string) string
	// Dir is what relative paths are relative to; the working directory of the
	// process if empty.
	Dir string
	// Hostname is part of the default id; the host's own name if empty.
	Hostname string
	// TokenLater accepts a driver without the token that it needs: a deployment in AWS has it from
	// elsewhere, and not every command uses it.
	TokenLater bool
	// ForServer says that the file has one task for another process, which has the driver
	// and the providers.
	ForServer bool
	// Several accepts more than one task with ForServer.
	Several bool
	// Now is the time after which a schedule should come due; the current time if zero.
	Now time.Time
}

// Path is one -config-file or -config-dir. Either may name a file or a
// directory, as in Consul-Terraform-Sync; Dir only says which flag it was.
type Path struct {
	Name string
	Dir  bool
}

func (p Path) flag() string {
	if p.Dir {
		return "-config-dir"
	}
	return "-config-file"
}

// maxFile is the largest file that is read, in bytes. A thousand tasks are less
// than 1 MB; anything near the limit is not a task file.
const maxFile = 10 << 20

// parsers are the formats by file name extension.
var parsers = map[string]func(file string, src []byte) (*node, []Diagnostic){
	".hcl":  parseHCL,
	".json": parseJSON,
	".yaml": parseYAML,
	".yml":  parseYAML,
}

// parseFile reads a file of one of the formats.
func parseFile(file string, src []byte) (root *node, diags []Diagnostic) {
	defer func() { // the libraries have panicked on malformed files before
		if p := recover(); p != nil {
			root, diags = nil, []Diagnostic{{Position: Position{File: file}, Problem: fmt.Sprintf("the file cannot be parsed: %v", p)}}
		}
	}()
	return parsers[extension(file)](file, bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")))
}

// Load reads, merges, completes and validates the configuration. It reports all
// errors at once, as Errors.
func Load(opts Options) (*Config, error) {
	cfg, err := Examine(opts)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Examine is Load for a program that has more to check: beside Errors, it returns
// the rest of the configuration with the tasks that have no error.
func Examine(opts Options) (*Config, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	var raw rawConfig
	files := l.readAll(&raw)
	if len(files) == 0 && len(l.Errors) == 0 {
		return nil, noFiles
	}
	if n := len(raw.Tasks); opts.ForServer && !opts.Several && n > 1 && len(l.Errors) == 0 {
		return nil, fmt.Errorf("task file '%s' cannot contain more than 1 task, contains %d tasks", opts.Paths[0].Name, n)
	}
	cfg := l.resolve(&raw)
	cfg.Warnings = l.sorted(l.Warnings, files)
	cfg.files = files
	if len(l.Errors) > 0 {
		cfg.Tasks = slices.DeleteFunc(cfg.Tasks, l.wrong())
		cfg.nameTasks()
		return cfg, Errors(l.sorted(l.Errors, files))
	}
	cfg.nameTasks()
	return cfg, nil
}

// wrong returns a function that reports whether an error is about a task: about one of its keys, or
// one of its variable files.
func (l *loader) wrong() func(Task) bool {
	type place struct{ file, key string }
	keys, files := map[place]bool{}, map[string]bool{}
	for _, d := range l.Errors {
		files[d.File], keys[place{d.File, d.Key}] = true, true
		for i, c := range d.Key {
			if c == '.' {
				keys[place{d.File, d.Key[:i]}] = true
			}
		}
	}
	return func(t Task) bool {
		return keys[place{t.Source.File, t.path}] || slices.ContainsFunc(t.VariableFiles, func(file string) bool { return files[file] })
	}
}

// noFiles is the error where no path has a task file.
var noFiles = Errors{{
	Problem: "no configuration files found",
	Hint:    "name files or folders of .yaml, .yml, .hcl or .json with -config-file and -config-dir",
}}

// newLoader fills in the options that are not set.
func newLoader(opts Options) (*loader, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	dir, err := filepath.Abs(cmp.Or(opts.Dir, "."))
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	opts.Dir = dir
	if opts.Hostname == "" {
		if opts.Hostname, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("find the host's name: %w", err)
		}
	}
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	return &loader{Options: opts, Report: block.Report{Now: opts.Now, Existing: true}}, nil
}

// readAll reads and merges the files of Paths, and returns their names.
func (l *loader) readAll(raw *rawConfig) []string {
	advice := "correct the path"
	if !l.ForServer {
		advice += ", or write a first task file with `terrapulse init`"
	}
	files := l.files(advice)
	for _, file := range files {
		l.read(file, raw)
	}
	return files
}

// LoadStoreSettings reads the settings that decide where the store is from task files, or
// takes the defaults if there are no paths: WorkingDir, and of a cluster Consul and
// HighAvailability. It ignores errors of other keys: the store can be read while a
// person edits the files.
func LoadStoreSettings(opts Options) (*Config, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	var raw rawConfig
	files := l.readAll(&raw)
	if len(opts.Paths) > 0 && len(files) == 0 && len(l.Errors) == 0 {
		return nil, noFiles
	}
	l.implied(&raw)
	workingDir, _ := schemaOf(reflect.TypeFor[rawConfig]()).find("working_dir")
	l.fillField(reflect.ValueOf(&raw.WorkingDir).Elem(), workingDir, "")
	settings := &Config{WorkingDir: raw.WorkingDir}
	if l.place(&raw.HighAvailability).Set {
		l.fill(&raw.HighAvailability, "")
		l.fill(&raw.Consul, "CONSUL")
		settings.HighAvailability = l.highAvailability(&raw.HighAvailability)
		settings.Consul = l.consul(&raw.Consul)
	}
	l.Errors = slices.DeleteFunc(l.Errors, func(d Diagnostic) bool {
		key, _, _ := strings.Cut(d.Key, ".")
		return d.File != "" && key != "" && key != "working_dir" && key != "consul" && key != "high_availability"
	})
	if len(l.Errors) > 0 {
		return nil, Errors(l.sorted(l.Errors, files))
	}
	return settings, nil
}

// ConsulOf returns how Consul is reached by the environment alone. Its error is
// Errors.
func ConsulOf(getenv func(string) string) (Consul, error) {
	l := loader{Options: Options{Getenv: getenv}}
	var raw rawConfig
	l.implied(&raw)
	l.fill(&raw.Consul, "CONSUL") // and nothing else, which may be wrong
	consul := l.consul(&raw.Consul)
	if len(l.Errors) > 0 {
		return Consul{}, Errors(l.Errors)
	}
	return consul, nil
}

// A loader reads one configuration, and collects everything that is wrong with it.
// It decodes the trees of files into the same structs of schema.go one after the
// other, which is how they are merged: a value replaces, a map adds, a repeatable
// block appends.
type loader struct {
	Options
	block.Report
	fromAPI bool           // it reads one task, of the API
	kept    bool           // it reads one task that was kept of a file
	earlier map[string]int // blocks of repeatable keys in the files before this one
	weak    bool           // accept a list of one where a single value is expected
	written map[any]any    // see rawOf and place, by pointer

	encrypted []*bool // the switches of TLS where the address says https, and variables name the files
}

// sorted orders findings as a person reads the files.
func (l *loader) sorted(diags []Diagnostic, files []string) []Diagnostic {
	order := map[string]int{}
	for i, f := range files {
		order[f] = i + 1
	}
	list.Sort(diags, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return diags
}

// abs makes a path of a file absolute. The empty path stays empty.
func (l *loader) abs(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Dir, path)
}

// NotThere says in which folder a file or folder that does not exist was looked for.
func NotThere(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	folder, name := filepath.Dir(path), filepath.Base(path)
	if _, err := os.Stat(folder); err != nil {
		return "there is no folder " + folder
	}
	text := fmt.Sprintf("there is no %s in the folder %s", name, folder)
	for _, ext := range []string{".yaml", ".yml", ".hcl", ".json"} {
		other := strings.TrimSuffix(name, filepath.Ext(name)) + ext
		if _, err := os.Stat(filepath.Join(folder, other)); err == nil {
			text += ", but there is " + other
		}
	}
	return text
}

// files returns the files of Paths, as a person would name them. advice is what to do about a path
// that does not exist.
func (l *loader) files(advice string) []string {
	var files []string
	for _, p := range l.Paths {
		at := block.Origin{Path: p.flag()}
		info, err := os.Stat(l.abs(p.Name))
		switch {
		case p.Name == "":
			l.Fail(at, "the path is empty", "")
		case errors.Is(err, fs.ErrNotExist):
			l.Fail(at, readable(err, p.Name), NotThere(l.abs(p.Name))+": "+advice)
		case err != nil:
			l.Fail(at, readable(err, p.Name), "")
		case !info.IsDir():
			if l.usable(p.Name, info) {
				files = append(files, p.Name)
			} else if info.Size() > 0 {
				l.Warn(at, "skipped "+p.Name, "files end in .yaml, .yml, .hcl or .json")
			}
		default:
			files = append(files, l.directory(at, p.Name)...)
		}
	}
	return files
}

// directory returns the files of a folder, in the order of their names, without
// those of its sub-folders.
func (l *loader) directory(at block.Origin, dir string) []string {
	entries, err := os.ReadDir(l.abs(dir))
	if err != nil {
		l.Fail(at, readable(err, dir), "")
		return nil
	}
	var files []string
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if !IsTaskFile(name) {
			continue
		}
		info, err := os.Stat(l.abs(name)) // follows symbolic links
		if err != nil {
			l.Fail(at, readable(err, name), "remove it or correct the link")
			continue
		}
		if l.usable(name, info) {
			files = append(files, name)
		}
	}
	return files
}

func (l *loader) usable(name string, info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Size() > 0 && parsers[extension(name)] != nil
}

// IsTaskFile reports whether a file of this name in a folder is read. Not read are
// the JSON Schema, which editors use, and .#name, with which Emacs marks a file that
// is being edited.
func IsTaskFile(name string) bool {
	return parsers[extension(name)] != nil && !strings.HasSuffix(strings.ToLower(name), ".schema.json") &&
		!strings.HasPrefix(filepath.Base(name), ".#")
}

func extension(name string) string { return strings.ToLower(filepath.Ext(name)) }

// readFile reads a file that the configuration names, up to the limit.
func (l *loader) readFile(name string) ([]byte, error) {
	f, err := os.Open(l.abs(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(src) > maxFile {
		size := int64(len(src)) // a device has no size
		if info, err := f.Stat(); err == nil {
			size = max(size, info.Size())
		}
		err = fmt.Errorf("the file is too large: %d bytes, and at most %d are read", size, maxFile)
	}
	return src, err
}

// readable is an error of the operating system with the name that the person gave.
func readable(err error, name string) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("%s %s: %s", path.Op, name, path.Err)
	}
	return fmt.Sprintf("read %s: %s", name, err)
}

// read adds one file to the files before. It returns nil if the file cannot be
// parsed.
func (l *loader) read(file string, raw *rawConfig) *node {
	at := block.Origin{Pos: Position{File: file}}
	src, err := l.readFile(file)
	if err != nil {
		l.Fail(at, readable(err, file), "")
		return nil
	}
	if i := invalidUTF8(src); i >= 0 {
		at.Pos.Line = 1 + bytes.Count(src[:i], []byte("\n"))
		l.Fail(at, "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	root, diags := parseFile(file, src)
	l.Errors = append(l.Errors, diags...)
	if root == nil {
		return nil
	}
	for path, e := range root.below("", "") {
		for _, old := range e.superseded {
			l.Warn(block.Origin{Pos: e.pos, Path: path}, fmt.Sprintf("set more than once: this value is used, and the one of line %d is not", old.pos.Line), "remove one of them")
		}
	}
	l.earlier = map[string]int{"task": len(raw.Tasks), "service": len(raw.Services), "notify": len(raw.Notify), "window": len(raw.Windows)}
	l.weak = slices.Contains([]string{".hcl", ".json"}, extension(file)) // the formats of Consul-Terraform-Sync
	l.block(root, reflect.ValueOf(raw).Elem(), "")
	l.noTemplates(root, "")
	return root
}

// invalidUTF8 returns where src stops being UTF-8, or -1.
func invalidUTF8(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
