package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// refuses expects that both ways of opening the file fail, that the error contains all of what and
// the file's name, and that the file stays unchanged.
func refuses(t *testing.T, path string, what ...string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(context.Context, string) (*Store, error){"Open": Open, "readOnly": readOnly} {
		s, err := open(t.Context(), path)
		if err == nil {
			s.Close()
			t.Errorf("%s succeeded", name)
			continue
		}
		says(t, err, append(what, path)...)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file is not as it was: %d bytes, now %d (%v)", len(before), len(after), err)
	}
}

func says(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", what)
		return
	}
	for _, w := range what {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// filled creates a store with some hundred records and closes it.
func filled(t *testing.T, path string) {
	t.Helper()
	s := open(t, path)
	for i := range 100 {
		write(t, s, state.Create(fmt.Sprintf("run/%03d", i), bytes.Repeat([]byte{byte(i)}, 3000)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_RefusesAFileThatIsNoDatabase(t *testing.T) {
	for name, content := range map[string]string{
		"short text": "hello\n",
		"long text":  strings.Repeat("task \"web\" {}\n", 1000),
		"zeros":      strings.Repeat("\x00", 8192),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			refuses(t, path, "open store", "it was not changed", "move it away")
		})
	}
}

func TestOpen_RefusesTheDatabaseOfAnotherProgram(t *testing.T) {
	for _, mode := range []string{"DELETE", "WAL"} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bookmarks.db")
			execute(t, path, "PRAGMA journal_mode="+mode, "CREATE TABLE records (key TEXT)", "INSERT INTO records VALUES ('precious')")
			refuses(t, path, "another program", "-store")
		})
	}
}

func TestOpen_RefusesAStoreOfANewerVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	filled(t, path)
	execute(t, path, "PRAGMA user_version=7")
	refuses(t, path, "newer version of Terrapulse", "format 7", "supports 1")
}

// execute runs statements on the file as another program would.
func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestOpen_RefusesADamagedStore(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"cut off":               func(b []byte) []byte { return b[:len(b)/2] },
		"first bytes lost":      func(b []byte) []byte { copy(b, make([]byte, 100)); return b },
		"schema overwritten":    func(b []byte) []byte { copy(b[100:], bytes.Repeat([]byte{0xa5}, 3000)); return b },
		"pages overwritten":     func(b []byte) []byte { copy(b[3*4096:], bytes.Repeat([]byte{0xa5}, 4*4096)); return b },
		"a page of zeros":       func(b []byte) []byte { copy(b[1*4096:], make([]byte, 4096)); return b },
		"only the header stays": func(b []byte) []byte { return b[:4096] },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			filled(t, path)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = harm(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path)
			if err == nil {
				s.Close()
				t.Fatal("the store was opened")
			}
			says(t, err, path, "damaged", "it was not changed", "Terraform's own state")
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(b, after) {
				t.Errorf("the file was touched (%v)", err)
			}
		})
	}
}

func TestStore_ReportsDamageDuringUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	filled(t, path)
	s := open(t, path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(b); i++ {
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.List(t.Context(), "run/")
	says(t, err, path, "list records run/*", "damaged")
	_, err = s.Get(t.Context(), "run/050")
	says(t, err, path, "read record run/050", "damaged")
	_, err = s.Apply(t.Context(), state.Create("run/new", nil))
	says(t, err, path, "write to", "damaged")
}

func TestOpen_ReportsAMissingFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "state.db")
	_, err := Open(t.Context(), path)
	says(t, err, "no folder "+filepath.Dir(path), "create it", "-store")
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestOpen_ReportsAReadOnlyFile(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("rights do not stop this user")
	}
	for name, protect := range map[string]func(path string) error{
		"the file":   func(path string) error { return os.Chmod(path, 0o400) },
		"the folder": func(path string) error { return os.Chmod(filepath.Dir(path), 0o500) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			filled(t, path)
			if err := protect(path); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o700) })
			_, err := Open(t.Context(), path)
			says(t, err, "open store "+path, "allow", "writing", "the file and its folder", "-store")
		})
	}
}

func TestOpen_RefusesAFolder(t *testing.T) {
	path := t.TempDir()
	_, err := Open(t.Context(), path)
	says(t, err, path, "not a file", "-store")
	_, err = ReadOnly(t.Context(), path)
	says(t, err, path, "not a file", "-store")
}

func TestReadOnly_WithoutAStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	for _, made := range []bool{false, true} {
		if made { // by a process that died before it wrote anything
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := ReadOnly(t.Context(), path)
		says(t, err, "no state yet", path)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
		if _, err := os.Stat(path); made != (err == nil) {
			t.Errorf("the file was made or removed: %v", err)
		}
	}
	open(t, path) // an empty file becomes a store
}

func TestReadOnly_WhileAnotherProcessWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	w := open(t, path)
	first := write(t, w, state.Create("task/a", []byte("1")))[0]
	r, err := readOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	write(t, w, state.Replace(first, []byte("2")))
	got, err := r.Get(t.Context(), "task/a")
	if err != nil || string(got.Value) != "2" {
		t.Errorf("read %s, %v; want what was written last", got.Value, err)
	}
	_, err = r.Apply(t.Context(), state.Create("task/b", nil))
	says(t, err, "write to", path, "reading only")
	if _, err := r.reader.Exec("DELETE FROM records"); err == nil {
		t.Error("the connection allows writing")
	}
}

func TestStore_NoticesThatItsFileWasRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let one remove a file in use")
	}
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	r := write(t, s, state.Create("task/a", nil))[0]
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		if again {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Apply(t.Context(), state.Delete(r))
		says(t, err, path, "removed or replaced", "restart")
		_, err = s.Get(t.Context(), "task/a")
		says(t, err, path, "removed or replaced")
		_, err = s.List(t.Context(), "task/")
		says(t, err, path, "removed or replaced")
	}
}

// limit prevents the file from growing, which SQLite treats like a full disk.
func limit(t *testing.T, s *Store) {
	t.Helper()
	var pages int
	if err := s.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if err := s.writer.QueryRow(fmt.Sprintf("PRAGMA max_page_count=%d", pages)).Scan(&pages); err != nil {
		t.Fatal(err)
	}
}

func TestStore_FullDiskLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	kept := write(t, s, state.Create("task/a", []byte("kept")))[0]
	limit(t, s)
	full(t, s, kept)
	var pages int
	if err := s.writer.QueryRow("PRAGMA max_page_count=100000").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	write(t, s, state.Replace(kept, bytes.Repeat([]byte("v"), 100_000)))
}

// full writes until the file is full. It expects a clear error, that all confirmed records are
// there, and that no part of the refused write is.
func full(t *testing.T, s *Store, kept state.Record) {
	t.Helper()
	ctx := context.Background()
	written := 0
	for {
		_, err := s.Apply(ctx, state.Replace(kept, []byte("lost")), state.Create("run/refused", bytes.Repeat([]byte("v"), 200_000)))
		if err != nil {
			says(t, err, "write to store "+s.path, "no space left", "nothing was written")
			break
		}
		t.Fatal("there was space")
	}
	for ; written < 10_000; written++ {
		if _, err := s.Apply(ctx, state.Create(fmt.Sprintf("run/%06d", written), bytes.Repeat([]byte("v"), 1000))); err != nil {
			says(t, err, "no space left")
			break
		}
	}
	got, err := s.Get(ctx, kept.Key)
	if err != nil || got.Version != kept.Version || !bytes.Equal(got.Value, kept.Value) {
		t.Errorf("what was there before: %v, %v; want %v", got, err, kept)
	}
	if records, err := s.List(ctx, "run/"); err != nil || len(records) != written {
		t.Errorf("%d records, %v; %d writes were answered", len(records), err, written)
	}
}
