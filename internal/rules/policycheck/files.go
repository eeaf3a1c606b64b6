package policycheck

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxBytes limits the files of a check: a bundle has to hold them, too.
const maxBytes = 20 << 20

// Files returns the files that names stand for: a folder for all files in it, except
// those in linked folders. The names are relative to dir, as the result is.
func Files(dir string, names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		if filepath.IsAbs(name) {
			return nil, fmt.Errorf("%s is an absolute path, which does not exist on another machine", name)
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no file or folder %s", name)
		}
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				return nil // a link
			}
			rel, err := filepath.Rel(root, path)
			files = append(files, filepath.Join(name, rel))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// Content identifies the content of files and folders, in hex SHA-256.
func Content(dir string, names []string) (string, error) {
	files, err := Files(dir, names)
	if err != nil {
		return "", err
	}
	sum, size := sha256.New(), 0
	for _, name := range files {
		content, err := readFile(filepath.Join(dir, name), maxBytes-size)
		if err != nil {
			return "", err
		}
		size += len(content)
		fmt.Fprintf(sum, "%q %d\n", filepath.ToSlash(name), len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func readFile(name string, most int) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(content) > most {
		err = fmt.Errorf("with %s, the files have more than %d MB", name, maxBytes>>20)
	}
	return content, err
}
