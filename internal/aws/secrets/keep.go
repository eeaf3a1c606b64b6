package secrets

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
)

// Keep writes a certificate or key to a file in dir that only this user may read and that is named
// after its content.
func Keep(dir, pem string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("%x.pem", sha256.Sum256([]byte(pem))))
	return path, atomicfile.WriteText(path, pem)
}
