package terraformcli

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
)

// Terraform unpacks a provider right into the plugin cache that a user has configured, over the one that
// is there: another init reads half of it, and records the checksum of that half, and a provider that
// runs cannot be written. So an init gets a cache of its own, with links to what the user's has. What it
// unpacks there gets into the user's by a rename.

// pluginCaches are the plugin caches that tasks use.
var pluginCaches sync.Map // of the path to *Shared

var (
	cacheSetting = regexp.MustCompile(`"?\bplugin_cache_dir"?\s*[=:]\s*"([^"]+)"`)
	commentLine  = regexp.MustCompile(`(?m)^\s*(?:#|//).*$`)
)

// pluginCache returns the plugin cache that a user has configured; nil if there is none.
func (d *Dir) pluginCache(env map[string]string) *Shared {
	get := func(name string) string { return env[name] }
	path := env["TF_PLUGIN_CACHE_DIR"]
	for _, file := range cliConfigFiles(d.path, get) {
		if path != "" {
			break
		}
		raw, _ := os.ReadFile(file) // Terraform reports the error
		if found := cacheSetting.FindSubmatch(commentLine.ReplaceAll(raw, nil)); found != nil {
			path = os.Expand(string(found[1]), get)
		}
	}
	if path == "" || runtime.GOOS == "windows" {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.path, path)
	}
	cache, _ := pluginCaches.LoadOrStore(path, &Shared{dir: path, turns: map[string]*turn{}})
	return cache.(*Shared)
}

// view makes a plugin cache for one init, with links to the providers of this one.
func (s *Shared) view() (dir string, remove func(), err error) {
	sweep(s.dir, func(string, error) {})
	dir, remove, err = scratchIn(s.dir, "init-")
	if err != nil {
		return "", func() {}, err
	}
	for _, name := range packagesIn(s.dir) {
		path := filepath.Join(dir, name)
		if !strings.HasPrefix(name, scratchPrefix) && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			_ = os.Symlink(filepath.Join(s.dir, name), path) // without it, Terraform installs the provider
		}
	}
	return dir, remove, nil
}

// relink has the links of a task's directory that lead into a view lead to where that leads.
func relink(dir, view string) {
	for _, name := range packagesIn(dir) {
		path := filepath.Join(dir, name)
		link, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(link, view) {
			continue
		}
		if to, err := filepath.EvalSymlinks(link); err == nil && os.Remove(path) == nil {
			_ = os.Symlink(to, path) // without it, Terraform installs the provider
		}
	}
}
