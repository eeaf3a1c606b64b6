package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/atomicfile"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// NameFile is a file in working_dir with the URL of the store, if the latest instance with these task
// files was started with another store than they configure.
const NameFile = "terrapulse.store"

// Of returns the place of the store of the latest instance with these task files: the one that they
// configure, or the one that it was started with.
func Of(ctx context.Context, settings *config.Config) (Place, error) {
	if settings.HighAvailability != nil {
		return Configured(settings), nil
	}
	name := filepath.Join(settings.WorkingDir, NameFile)
	url, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Configured(settings), nil
	}
	var place Place
	if err == nil {
		place, err = At(ctx, strings.TrimSpace(string(url)))
	}
	if err != nil {
		return Place{}, fmt.Errorf("find the store of the instance, which is in %s: %w; name the store with -store", name, err)
	}
	return place, nil
}

// Note has commands find the store of an instance by its task files. It is given the URL that the instance
// was started with; "" if it uses the store that the task files configure.
func Note(settings *config.Config, url string) error {
	name := filepath.Join(settings.WorkingDir, NameFile)
	if url == "" {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	url, err := absolute(url)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(settings.WorkingDir, 0o750); err != nil {
		return err
	}
	return atomicfile.WriteText(name, url+"\n")
}
