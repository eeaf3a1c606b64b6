package terraformcli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
)

// settled is how long a file must be unchanged before its digest is kept: a change right
// after another one may leave the same time.
const settled = 2 * time.Second

// packageSums keeps the digests of the directories of providers until a file there changes.
var packageSums sync.Map // of the resolved path to *packageDigest

type packageDigest struct {
	mu    sync.Mutex
	stamp string // of the files; "" if sum is not valid
	sum   string
}

// packageSum returns the digest of the directory of a provider, as the lock file has it.
func packageSum(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	kept, _ := packageSums.LoadOrStore(dir, &packageDigest{})
	digest := kept.(*packageDigest)
	digest.mu.Lock()
	defer digest.mu.Unlock()
	stamp, changed, err := stampOf(dir)
	if err != nil {
		return "", err
	}
	if digest.stamp == stamp {
		return digest.sum, nil
	}
	digest.stamp = ""
	sum, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	if err != nil {
		return "", err
	}
	if again, _, err := stampOf(dir); err == nil && again == stamp && time.Since(changed) > settled {
		digest.stamp, digest.sum = stamp, sum
	}
	return sum, nil
}

// stampOf returns what changes with each change of a file in a directory, and when one
// changed last.
func stampOf(dir string) (stamp string, changed time.Time, err error) {
	var b strings.Builder
	err = filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path) // of what a link leads to
		if err != nil {
			return err
		}
		at := changeTime(info)
		if at.After(changed) {
			changed = at
		}
		_, err = fmt.Fprintf(&b, "%q %d %d %d %s\n", path, info.Size(), info.ModTime().UnixNano(), at.UnixNano(), identity(info))
		return err
	})
	return b.String(), changed, err
}
