// Command mirror copies the providers of one platform from a folder that `terraform providers
// mirror` has written, and unpacks them. Terraform links to unpacked providers; it would unpack a
// packed one again for each task.
//
//	go run ./infra/runner/mirror FROM TO linux_arm64
package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: mirror FROM TO PLATFORM, such as mirror /tmp/mirror context/mirror linux_arm64")
		os.Exit(2)
	}
	if err := unpack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "unpack the providers:", err)
		os.Exit(1)
	}
}

var (
	// packed is HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip.
	packed = regexp.MustCompile(`^([^/]+/[^/]+/([^/]+))/terraform-provider-([^/_]+)_([^/_]+)_([a-z0-9]+_[a-z0-9]+)\.zip$`)
	// unpacked is HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
	unpacked = regexp.MustCompile(`^[^/]+/[^/]+/[^/]+/[^/]+/([a-z0-9]+_[a-z0-9]+)$`)
)

// unpack writes the providers of a platform to the folder to. It returns an error if there is none.
func unpack(from, to, platform string) error {
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	found, others := 0, map[string]bool{}
	err = filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(relative)
		if m := packed.FindStringSubmatch(slashed); m != nil && m[2] == m[3] {
			if others[m[5]] = true; m[5] != platform {
				return nil
			}
			found++
			return extract(name, filepath.Join(to, filepath.FromSlash(path.Join(m[1], m[4], platform))))
		}
		m := unpacked.FindStringSubmatch(slashed)
		if m == nil {
			return nil
		}
		// A link to a folder is no directory for WalkDir: EvalSymlinks follows it.
		folder, err := filepath.EvalSymlinks(name)
		if err != nil {
			return err
		}
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return err
		}
		if others[m[1]] = true; m[1] == platform {
			found++
			if err := copyFolder(folder, filepath.Join(to, relative)); err != nil {
				return err
			}
		}
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found > 0:
		return nil
	case len(others) == 0:
		return fmt.Errorf("%s contains no providers: fill it with `terraform providers mirror -platform=%s %[1]s`", from, platform)
	}
	return fmt.Errorf("%s contains no provider for %s: run `terraform providers mirror -platform=%[2]s %[1]s`", from, platform)
}

// extract unpacks the zip of a provider into a folder.
func extract(archive, to string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer r.Close()
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if !filepath.IsLocal(f.Name) || !f.Mode().IsRegular() {
			return fmt.Errorf("%s contains %s, which is no file of a provider", archive, f.Name)
		}
		content, err := f.Open()
		if err == nil {
			err = write(filepath.Join(to, filepath.FromSlash(f.Name)), content, f.Mode())
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", archive, f.Name, err)
		}
	}
	return nil
}

// copyFolder copies an unpacked provider.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		return write(filepath.Join(to, relative), f, info.Mode())
	})
}

// write writes a file that every user can read, and closes its source.
func write(name string, from io.ReadCloser, mode fs.FileMode) error {
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, readable(mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// readable returns the rights of a file that every user can read, and execute if one user can.
func readable(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}
