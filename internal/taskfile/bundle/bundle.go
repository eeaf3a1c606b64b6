// Package bundle packs a configuration into one zip: task files, local modules, variable files and
// the files of checks, with the same relative paths. The same content gives the same bytes, regardless of place and
// time, and the digest of the bytes is the bundle's name. Bucket keeps bundles in S3.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// maxBytes limits the content of a bundle. A thousand tasks with their modules are a few MB,
	// and the function keeps a bundle in memory while it unpacks it.
	maxBytes = 20 << 20
	// maxFiles limits the number of files in a bundle.
	maxFiles = 10_000

	// manifestName is the name of the entry that describes the others.
	manifestName = ".terrapulse"
	// format is the version of the layout. A reader refuses a newer one.
	format = 1
	// above is the name of a folder in a bundle whose real name does not matter: a parent folder
	// that references with ../ lead to.
	above = "_"
)

// Bundle is a packed configuration.
type Bundle struct {
	Digest string // hex SHA-256 of Zip
	Zip    []byte
}

// InvalidError says that a bundle is invalid: a retry is useless.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// manifest describes a bundle. All paths have slashes.
type manifest struct {
	Format int `json:"format"`
	// Dir is the folder in the bundle to which relative paths are relative.
	Dir string `json:"dir"`
	// Files are the task files in their order, relative to Dir.
	Files []string `json:"files"`
	// Modules are the digests of the files of each local module, by its path relative to Dir.
	Modules map[string]string `json:"modules,omitempty"`
}

// Load unpacks a bundle into the folder dir, which must be empty or must not exist,
// and returns the configuration in it. The configuration's local modules are in dir.
// Its working directories are not, whatever the task files say: they are relative to
// the working directory of the process, one for each task.
//
// Of the options, Load uses Getenv, Hostname and Now. If the bundle is invalid, the
// error is an InvalidError.
func Load(zip []byte, dir string, opts config.Options) (*config.Config, error) {
	m, err := unpack(zip, dir)
	if err != nil {
		return nil, err
	}
	opts.TokenLater = true
	opts.Dir, opts.Paths = filepath.Join(dir, filepath.FromSlash(m.Dir)), nil
	for _, file := range m.Files {
		opts.Paths = append(opts.Paths, config.Path{Name: filepath.FromSlash(file)})
	}
	cfg, err := config.Load(opts)
	if err != nil {
		return nil, &InvalidError{fmt.Errorf("the configuration in the bundle is invalid:\n%w", err)}
	}
	cfg.WorkingDir = "sync-tasks" // of tasks that are made through the API, too
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		t.WorkingDir = filepath.Join(cfg.WorkingDir, t.Name)
		if !t.LocalModule() {
			continue
		}
		module, err := relative(cfg.Dir(), t.Module)
		if err != nil {
			return nil, &InvalidError{err}
		}
		if t.ModuleDigest = m.Modules[module]; t.ModuleDigest == "" {
			return nil, &InvalidError{fmt.Errorf("%s: the module %s of task %s is not in the bundle", t.Source, t.WrittenModule(), t.Name)}
		}
	}
	return cfg, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// relative returns a path relative to dir, with slashes.
func relative(dir, target string) (string, error) {
	rel, err := filepath.Rel(dir, target)
	if err != nil {
		return "", fmt.Errorf("%s cannot be reached from %s: %w", target, dir, err)
	}
	return filepath.ToSlash(rel), nil
}

func (m manifest) encode() []byte {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // strings and a number can always be encoded
	}
	return append(text, '\n')
}

// valid returns what is wrong with a manifest.
func (m manifest) valid() error {
	switch {
	case m.Format > format:
		return fmt.Errorf("the bundle is of format %d, but this version of Terrapulse reads formats up to %d: deploy a newer version, or push with this one", m.Format, format)
	case m.Format < 1 || path.Clean(m.Dir) != m.Dir || !filepath.IsLocal(filepath.FromSlash(m.Dir)) || len(m.Files) == 0:
		return errNoBundle
	}
	for _, file := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(path.Join(m.Dir, file))) {
			return errNoBundle
		}
	}
	return nil
}
