//go:build !windows

package terraformcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// bucket is an S3 server with one bucket, in which a fixture keeps its state.
type bucket struct {
	t testing.TB
	*s3mem.Backend
}

// keepInS3 moves the state of the fixture to S3, with locks that are files.
func (f *fixture) keepInS3() *bucket {
	f.t.Helper()
	b := &bucket{f.t, s3mem.New()}
	if err := b.CreateBucket("states"); err != nil {
		f.t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(b.Backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	f.t.Cleanup(server.Close)
	yes := cty.True
	f.cfg.Terraform.Backend = config.Backend{Type: "s3", Body: config.Body{Attributes: map[string]cty.Value{
		"bucket": cty.StringVal("states"), "key": cty.StringVal("state"), "region": cty.StringVal("eu-central-1"), "use_lockfile": yes,
		"access_key": cty.StringVal("a"), "secret_key": cty.StringVal("b"), "use_path_style": yes,
		"endpoints":                   cty.ObjectVal(map[string]cty.Value{"s3": cty.StringVal(server.URL)}),
		"skip_credentials_validation": yes, "skip_requesting_account_id": yes, "skip_metadata_api_check": yes, "skip_region_validation": yes,
	}}}
	f.render("api")
	return b
}

const lockObject = "env:/web/state.tflock"

// lock returns the lock's file, or "".
func (b *bucket) lock() string {
	b.t.Helper()
	object, err := b.GetObject("states", lockObject, nil)
	if err != nil {
		return ""
	}
	defer object.Contents.Close()
	text, err := io.ReadAll(object.Contents)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// put locks the state for somebody.
func (b *bucket) put(id, who string) {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"ID": id, "Operation": "OperationTypeApply", "Who": who, "Version": "1.11.4",
		"Created": time.Now().UTC(), "Path": "states/" + lockObject})
	if err == nil {
		_, err = b.PutObject("states", lockObject, nil, strings.NewReader(string(text)), int64(len(text)), nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// killed has an apply killed while it holds the lock.
func (f *fixture) killed() {
	f.t.Helper()
	f.writeModule(slowModule)
	f.init(f.open(), true)
	cmd := exec.Command(f.bin.Path, "apply", "-auto-approve", "-input=false")
	cmd.Dir = f.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the shell that it starts
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	defer cmd.Wait()
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	for deadline := time.Now().Add(time.Minute); !f.started(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("the apply never started")
		}
	}
	f.writeModule(fileModule)
}

func TestLock_OfDeadHolderIsReleased(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.killed()
	if b.lock() == "" {
		t.Fatal("the killed Terraform has left no lock")
	}
	var asked []*LockError
	began := time.Now()
	f.apply(f.open(func(o *Options) {
		o.LockTimeout = 10 * time.Minute
		o.Orphaned = func(_ context.Context, _ string, lock *LockError) string {
			asked = append(asked, lock)
			return "run r1 of this task held it, and is dead"
		}
	}))
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %s: the lock was waited for before it was released", took)
	}
	if len(asked) != 1 || b.lock() != "" {
		t.Fatalf("asked about %+v, the lock is %q", asked, b.lock())
	}
	if at := asked[0].CreatedAt(); asked[0].Who == "" || at.After(began) || began.Sub(at) > time.Hour {
		t.Errorf("the lock reads %+v, created at %s", asked[0], at)
	}
	if log := f.log.String(); !strings.Contains(log, "by "+asked[0].Who+" (OperationTypeApply) since "+asked[0].Created) ||
		!strings.Contains(log, "run r1 of this task held it, and is dead. Releasing this lock.") || !strings.Contains(log, "The lock is released.") {
		t.Errorf("the output does not tell:\n%s", log)
	}
}

// Terraform creates a workspace in S3 under its lock, and releases the lock of none
// that does not exist.
func TestLock_ThatCannotBeReleasedIsReportedAsSuch(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.init(f.open(), true)
	b.put("0d6d8b1c-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "terraform@host") // the container died while it created the workspace
	var events strings.Builder
	_, err := f.open(func(o *Options) {
		o.LockTimeout = time.Second
		o.Logger = slog.New(slog.NewTextHandler(&events, nil))
		o.Orphaned = func(context.Context, string, *LockError) string { return "its holder was run r1 of this task" }
	}).Apply(t.Context())
	if !isLocked(err) || !strings.Contains(err.Error(), "its holder was run r1 of this task, but Terraform could not release the lock") ||
		!strings.Contains(err.Error(), "remove the lock states/"+lockObject) {
		t.Errorf("the apply ends with %v", err)
	}
	if log := f.log.String(); strings.Contains(log, "The lock is released.") || !strings.Contains(log, "The lock could not be released.") {
		t.Errorf("the output does not tell:\n%s", log)
	}
	if !strings.Contains(events.String(), "a state lock was not released whose holder is dead") {
		t.Errorf("the log does not tell: %s", events.String())
	}
}

func TestLock_OfLivingHolderStays(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.init(f.open(), true)
	f.apply(f.open()) // makes the workspace, without which no lock can be released
	f.render("api", "db")
	b.put("0d6d8b1c-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "ann@laptop")
	before := b.lock()
	var held struct{ Created time.Time }
	if err := json.Unmarshal([]byte(before), &held); err != nil {
		t.Fatal(err)
	}
	asked := 0
	_, err := f.open(func(o *Options) {
		o.LockTimeout = time.Second
		o.Orphaned = func(context.Context, string, *LockError) string { asked++; return "" }
	}).Apply(t.Context())
	if !isLocked(err) || asked != 1 || b.lock() != before {
		t.Fatalf("asked %d times, got %v, the lock is %q", asked, err, b.lock())
	}
	for _, want := range []string{"ann@laptop", "OperationTypeApply", held.Created.Format("2006-01-02 ")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestLock_IsWaitedFor(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.init(f.open(), true)
	f.apply(f.open()) // makes the workspace, without which no lock can be released
	f.render("api", "db")
	b.put("0d6d8b1c-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "ann@laptop")
	f.apply(f.open(func(o *Options) {
		o.Orphaned = func(context.Context, string, *LockError) string {
			if _, err := b.DeleteObject("states", lockObject); err != nil { // ann has finished
				t.Error(err)
			}
			return ""
		}
	}))
}

func TestLock_DetailsAreReadBeforeRedaction(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.init(f.open(), true)
	f.apply(f.open()) // makes the workspace, without which no lock can be released
	f.render("api", "db")
	b.put("0d6d8b1c-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "terraform@host")
	var who string
	_, err := f.open(func(o *Options) {
		o.LockTimeout = time.Second
		o.VarJSON = []byte(`{"p": {"username": "terraform", "password": "5a7e"}}`)
		o.Orphaned = func(_ context.Context, _ string, lock *LockError) string {
			who = lock.Who
			return "its holder is dead"
		}
	}).Apply(t.Context())
	if err != nil || who != "terraform@host" {
		t.Errorf("the lock is held by %q, the apply ends with %v", who, err)
	}
}

func TestLock_NewHolderKeepsItsLock(t *testing.T) {
	f := newFixture(t, fileModule)
	b := f.keepInS3()
	f.init(f.open(), true)
	f.apply(f.open()) // makes the workspace, without which no lock can be released
	f.render("api", "db")
	b.put("0d6d8b1c-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "terrapulse@host")
	_, err := f.open(func(o *Options) {
		o.LockTimeout = time.Second
		o.Orphaned = func(_ context.Context, _ string, lock *LockError) string {
			if lock.Who != "terrapulse@host" {
				return ""
			}
			b.put("99999999-5a7e-4b1f-9c9e-3f2f8a1b2c3d", "ann@laptop")
			return "its holder is dead"
		}
	}).Apply(t.Context())
	var locked *LockError
	if !errors.As(err, &locked) || locked.Who != "ann@laptop" || !strings.Contains(b.lock(), "ann@laptop") {
		t.Errorf("got %v, the lock is %q", err, b.lock())
	}
}

func TestLock_CreatedAt(t *testing.T) {
	want := time.Date(2026, 3, 4, 5, 6, 7, 800000000, time.UTC)
	for text, want := range map[string]time.Time{fmt.Sprint(want): want, "2026-03-04 05:06:07 +0000 UTC": want.Truncate(time.Second), "": {}, "soon": {}} {
		if got := (&LockError{Created: text}).CreatedAt(); !got.Equal(want) {
			t.Errorf("%q is %s", text, got)
		}
	}
}
