// Package atomicfile replaces files as a whole, so that a reader sees the old or the new content.
package atomicfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write replaces a file by the output of render, readable for its owner alone, and reports whether it
// differed. Nobody may take the temporary file beside it for one of theirs: its name begins with a dot
// and ends with .tmp.
func Write(path string, render func(io.Writer) error) (changed bool, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name()) // only exists if the file stays as it is
	sum := sha256.New()
	if err := errors.Join(render(io.MultiWriter(tmp, sum)), tmp.Close()); err != nil {
		return false, err
	}
	same, err := hasContent(path, sum.Sum(nil))
	if err != nil || same {
		return false, err
	}
	return true, os.Rename(tmp.Name(), path)
}

// WriteText is Write with a text.
func WriteText(path, text string) error {
	_, err := Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	return err
}

// hasContent reports whether the file exists, only for its owner, with this SHA-256
// digest.
func hasContent(path string, want []byte) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || !private(info.Mode()) {
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return bytes.Equal(sum.Sum(nil), want), err
}

// private reports whether only the owner may read, which Windows has no modes for.
// CTS left files of mode 0640.
func private(m fs.FileMode) bool { return runtime.GOOS == "windows" || m.Perm()&0o077 == 0 }
