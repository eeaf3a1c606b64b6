package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// TestMain also runs the test binary as the other process: see second.
func TestMain(m *testing.M) {
	if role := os.Getenv("STORE_TEST_ROLE"); role != "" {
		if err := other(role, os.Getenv("STORE_TEST_PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childIncrements = 50

// other executes what a second process does with the store.
func other(role, path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	defer s.Close()
	switch role {
	case "open":
		return nil
	case "increment":
		return statetest.Increment(ctx, s, "counter/a", childIncrements)
	case "write until killed":
		for i := 0; ; i++ {
			if _, err := s.Apply(ctx, state.Create(fmt.Sprintf("run/%06d", i), bytes.Repeat([]byte("x"), 2000))); err != nil {
				return err
			}
			fmt.Println(i) // confirmed: from now on it must not be lost
		}
	}
	return fmt.Errorf("unknown role %q", role)
}

// second prepares another process with this role.
func second(t *testing.T, role, path string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "STORE_TEST_ROLE="+role, "STORE_TEST_PATH="+path)
	return cmd
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t testing.TB, s *Store, changes ...state.Change) []state.Record {
	t.Helper()
	records, err := s.Apply(context.Background(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestStore_Contract(t *testing.T) {
	statetest.Test(t, func(t *testing.T) func() state.Store {
		path := filepath.Join(t.TempDir(), "state.db")
		return func() state.Store {
			s, err := Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestStore_SurvivesARestart(t *testing.T) {
	// The path has characters with a meaning in URLs, because it becomes one.
	path := filepath.Join(t.TempDir(), "a folder 100% #1", "state & more.db")
	if runtime.GOOS != "windows" {
		path += "?mode=memory"
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	want := write(t, s, state.Create("task/a", []byte("kept")))[0]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("in the folder lie %v, %v; want the store alone", entries, err)
	}
	got, err := open(t, path).Get(t.Context(), "task/a")
	if err != nil || string(got.Value) != "kept" || got.Version != want.Version {
		t.Errorf("after the restart: %+v, %v; want %+v", got, err, want)
	}
}

func TestStore_RelativePathSurvivesAChangeOfFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	s := open(t, "state.db")
	t.Chdir(t.TempDir())
	write(t, s, state.Create("task/a", nil))
	if _, err := s.List(t.Context(), "task/"); err != nil {
		t.Error(err)
	}
}

func TestStore_OnlyTheOwnerMayReadTheFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps rights in access lists that come from the folder")
	}
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "state.db"))
	write(t, s, state.Create("task/a", nil))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v; want the file, its log and its index", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestApply_FlushesToTheDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	for pragma, want := range map[string]string{"synchronous": "2", "fullfsync": "1", "journal_mode": "wal"} {
		var got string
		if err := s.writer.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
		}
	}
}

func TestStore_SeveralProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	write(t, s, state.Create("counter/a", []byte("0")))
	const processes = 3
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			if out, err := second(t, "increment", path).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if err := statetest.Increment(t.Context(), s, "counter/a", childIncrements); err != nil {
		t.Error(err)
	}
	wg.Wait()
	r, err := s.Get(t.Context(), "counter/a")
	if want := strconv.Itoa((processes + 1) * childIncrements); err != nil || string(r.Value) != want {
		t.Errorf("the counter is %s, %v; want %s", r.Value, err, want)
	}
}

func TestOpen_ManyProcessesCreateTheStoreAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if out, err := second(t, "open", path).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		wg.Go(func() {
			s, err := Open(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
	write(t, open(t, path), state.Create("task/a", nil))
}

func TestApply_ConfirmedWritesSurviveAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	cmd := second(t, "write until killed", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for lines := bufio.NewScanner(out); lines.Scan(); answered++ {
		if answered == 40 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Wait()
	if answered < 40 {
		t.Fatalf("the process ended by itself after %d writes", answered)
	}
	for _, s := range []*Store{s, open(t, path)} {
		records, err := s.List(t.Context(), "run/")
		if err != nil || len(records) < answered {
			t.Errorf("%d records, %v; at least %d writes were answered", len(records), err, answered)
		}
	}
}

func TestApply_WaitEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	a, b := open(t, path), open(t, path)
	conn, err := a.writer.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"the same process": a, "another handle": b} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Apply(ctx, state.Create("task/a", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	// Readers do not wait for a writer.
	if _, err := b.List(t.Context(), "task/"); err != nil {
		t.Error(err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	write(t, b, state.Create("task/a", nil))
	write(t, a, state.Create("task/b", nil))
}

func TestApply_InterruptedWriteLeavesNoOpenTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, other := open(t, path), open(t, path)
	missing := state.Check(state.Record{Key: "task/a", Version: "1"})
	conflict := func(s *Store, ctx context.Context) error {
		_, err := s.Apply(ctx, missing) // never gets to the disk: most of its time is spent near BEGIN
		var c *state.ConflictError
		if errors.As(err, &c) {
			return nil
		}
		return err
	}
	// This found the bug after 700 writes on average.
	rounds := 6000
	if testing.Short() {
		rounds = 500
	}
	for i := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rand.IntN(200))*time.Microsecond, cancel)
		for ctx.Err() == nil {
			if err := conflict(s, ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		for name, s := range map[string]*Store{"the same": s, "another handle": other} {
			if err := conflict(s, t.Context()); err != nil {
				t.Fatalf("after %d writes that were given up, the next one of %s: %v", i+1, name, err)
			}
		}
	}
}

func TestApply_RemovesAFewExpiredRecords(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	start := time.Now()
	const old = 3*purgePortion - 5
	for i := range old {
		write(t, s, state.Create(fmt.Sprintf("run/%d", i), nil).Until(start.Add(time.Hour)))
	}
	write(t, s, state.Create("run/later", nil).Until(start.Add(3*time.Hour)), state.Create("run/forever", nil))

	s.now = func() time.Time { return start.Add(2 * time.Hour) }
	for left := old + 2; left > 2; {
		write(t, s, state.Create(fmt.Sprintf("tick/%d", left), nil))
		records, err := s.List(t.Context(), "run/")
		if err != nil {
			t.Fatal(err)
		}
		if gone := left - len(records); gone != min(purgePortion, left-2) {
			t.Fatalf("of %d records %d went with one write", left, gone)
		}
		left = len(records)
	}
	for _, key := range []string{"run/later", "run/forever"} {
		if _, err := s.Get(t.Context(), key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestStore_FileKeepsItsSizeUnderConstantLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	// This measures the use of pages, not the flushes of the disk.
	if _, err := s.writer.Exec("PRAGMA synchronous=OFF"); err != nil {
		t.Fatal(err)
	}
	cycles := 20_000
	if testing.Short() || underRaceDetector() { // the race detector makes SQLite 20 times slower
		cycles = 2_000
	}
	value := bytes.Repeat([]byte("v"), 3000)
	task := write(t, s, state.Create("task/a", value))[0]
	var runs []state.Record
	var after int64 // size of the file when as many runs are kept as ever will be
	var log int64   // its maximum
	for i := range cycles {
		// The life of a task: its record changes, a run is added, the oldest is removed.
		changes := []state.Change{
			state.Replace(task, value[:1000+i%2000]),
			state.Create(fmt.Sprintf("run/%06d", i), value[:500+i%2500]),
		}
		if len(runs) == 50 {
			changes = append(changes, state.Delete(runs[0]))
			runs = runs[1:]
		}
		records := write(t, s, changes...)
		task = records[0]
		runs = append(runs, records[1])
		log = max(log, size(t, path+"-wal"))
		if i == cycles/2 {
			after = size(t, path)
		}
	}
	const room = 128 << 10
	if now := size(t, path); now > after+room {
		t.Errorf("the file has grown from %d to %d bytes in %d cycles", after, now, cycles)
	}
	if log > 1<<20 {
		t.Errorf("the log has grown to %d bytes", log)
	}
	t.Logf("file %d bytes, log %d bytes", size(t, path), log)
}

func underRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestStore_LogShrinksAfterALongRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	value := bytes.Repeat([]byte("v"), 100_000)
	r := write(t, s, state.Create("task/a", value))[0]
	conn, err := s.reader.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var records int
	if _, err := conn.ExecContext(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM records").Scan(&records); err != nil {
		t.Fatal(err)
	}
	// While somebody reads, the log cannot be moved into the file.
	for i := range 40 {
		r = write(t, s, state.Replace(r, bytes.Repeat([]byte{byte(i)}, len(value))))[0]
	}
	if grown := size(t, path+"-wal"); grown < 3<<20 {
		t.Fatalf("the log has only %d bytes: the reader does not hold it", grown)
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		r = write(t, s, state.Replace(r, value))[0]
	}
	if now := size(t, path+"-wal"); now > 1<<20 {
		t.Errorf("the log still has %d bytes", now)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func BenchmarkApply(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "state.db"))
	value := bytes.Repeat([]byte("v"), 1000)
	lease := write(b, s, state.Create("lease/reconcile", value))[0]
	task := write(b, s, state.Create("task/a", value))[0]
	for b.Loop() {
		task = write(b, s, state.Check(lease), state.Replace(task, value))[1]
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "state.db"))
	write(b, s, state.Create("reconcile/state", bytes.Repeat([]byte("v"), 1000)))
	for b.Loop() {
		if _, err := s.Get(b.Context(), "reconcile/state"); err != nil {
			b.Fatal(err)
		}
	}
}
