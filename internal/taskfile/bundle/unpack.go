package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

var errNoBundle = errors.New("it is not what `terrapulse bundle push` makes")

// Unpack unpacks a bundle into the folder dir, which must be empty or must not exist. It returns
// the folder to which the task files' paths are relative, and the task files in their order,
// relative to that folder.
func Unpack(zip []byte, dir string) (from string, files []string, err error) {
	m, err := unpack(zip, dir)
	if err != nil {
		return "", nil, err
	}
	for _, file := range m.Files {
		files = append(files, filepath.FromSlash(file))
	}
	return filepath.Join(dir, filepath.FromSlash(m.Dir)), files, nil
}

func unpack(data []byte, dir string) (manifest, error) {
	m, entries, err := open(data)
	if err != nil {
		return m, &InvalidError{fmt.Errorf("open the bundle: %w", err)}
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return m, fmt.Errorf("unpack the bundle: the folder %s is not empty", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(m.Dir)), 0o755); err != nil {
		return m, fmt.Errorf("unpack the bundle: %w", err)
	}
	if err := os.CopyFS(dir, entries); errors.Is(err, zip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		return m, &InvalidError{fmt.Errorf("unpack the bundle: %w", err)}
	} else if err != nil {
		return m, fmt.Errorf("unpack the bundle: %w", err)
	}
	return m, nil
}

// open reads the manifest, and checks whether all entries may be unpacked.
func open(data []byte) (manifest, *zip.Reader, error) {
	var m manifest
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // the names are checked below
		return m, nil, err
	}
	if len(z.File) == 0 || len(z.File) > maxFiles+1 || z.File[0].Name != manifestName {
		return m, nil, errNoBundle
	}
	size, seen := uint64(0), map[string]bool{}
	for _, e := range z.File {
		// A file without compression has the same size in the zip.
		if e.Method != zip.Store || e.UncompressedSize64 > maxBytes || !e.Mode().IsRegular() || seen[e.Name] ||
			!fs.ValidPath(e.Name) || !filepath.IsLocal(filepath.FromSlash(e.Name)) {
			return m, nil, fmt.Errorf("entry %q: %w", e.Name, errNoBundle)
		}
		seen[e.Name] = true
		size += e.UncompressedSize64
	}
	if size > maxBytes+(1<<20) { // packing does not count the manifest
		return m, nil, fmt.Errorf("it has %d bytes, the limit is %d", size, maxBytes)
	}
	r, err := z.File[0].Open()
	if err != nil {
		return m, nil, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return m, nil, fmt.Errorf("read its manifest: %w", err)
	}
	return m, z, m.valid()
}
