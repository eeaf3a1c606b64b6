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

// NameFile is a file in working_dir with the URL of the store, if the latest instance that stays uses
// another store than its task files configure. It is kept when the instance ends or dies: its records are
// in that store, and the next start probably uses it too.
const NameFile = "terrapulse.store"

// Of returns the place of the store of the latest instance with these task files: the one that they
// configure, or the one that it uses.
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

// Note makes commands with these task files find the store of an instance, which writes this only if it
// stays: a start in once-mode beside it may use another store. It returns the URL of the store that was
// named before, "" if that is the same one or none.
func Note(settings *config.Config, used Place) (before string, err error) {
	name := filepath.Join(settings.WorkingDir, NameFile)
	url, err := used.url()
	if err != nil {
		return "", err
	}
	if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) != url {
		before = strings.TrimSpace(string(text))
	}
	if used.Same(Configured(settings)) {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return before, err
		}
		return before, nil
	}
	if err := os.MkdirAll(settings.WorkingDir, 0o750); err != nil {
		return before, err
	}
	return before, atomicfile.WriteText(name, url+"\n")
}

// Same reports whether both are the same store.
func (p Place) Same(other Place) bool {
	url, err := p.url()
	its, wrong := other.url()
	return err == nil && wrong == nil && url == its
}

// url names the store of an instance in each working directory.
func (p Place) url() (string, error) {
	where := p.Where
	if p.File != "" {
		path, err := filepath.Abs(p.File)
		if err != nil {
			return "", err
		}
		where = filepath.ToSlash(path)
	}
	return p.Kind + ":" + where, nil
}
