package secrets

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// Keep writes a certificate or key to a file in dir that only this user may read and that is named
// after its content.
func Keep(dir, pem string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("%x.pem", sha256.Sum256([]byte(pem))))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.CreateTemp(dir, ".pem-*") // for this user alone
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(pem)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return path, nil
}
