package terraformcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// onServer has the fixture's task keep its state on a server.
func onServer(t *testing.T) (*fixture, *stateServer) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server := newStateServer(t)
	f := newFixture(t, dataModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "http", Body: config.Body{Attributes: attributes{
		"address": text(server.URL + "/web"), "retry_max": cty.NumberIntVal(0),
	}}}
	f.render("api")
	f.init(f.open(), true)
	return f, server
}

// refuseNext has the server take the states after the next n.
func (s *stateServer) refuseNext(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = func() bool { n--; return n >= 0 }
}

func TestUnsaved_SameRunRetriesToSaveState(t *testing.T) {
	f, server := onServer(t)
	server.refuseNext(2)
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "saved now") || !strings.Contains(err.Error(), "Failed to save state") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "errored.tfstate")); err == nil {
		t.Error("the state is still in the directory")
	}
	if s := f.apply(f.open()); s.Any() {
		t.Errorf("it is made again: %+v\n%s", s, f.log.String())
	}
}

func TestUnsaved_NextRunSavesStateFirst(t *testing.T) {
	f, server := onServer(t)
	left := filepath.Join(f.dir, "errored.tfstate")

	// The server accepts no state until the program is stopped.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var refused atomic.Int64
	server.mu.Lock()
	server.refuse = func() bool {
		if refused.Add(1) == 2 {
			stop()
		}
		return true
	}
	server.mu.Unlock()
	hurried := f.open(func(o *Options) { o.StopSaving = time.Second })
	if _, err := hurried.Apply(ctx); err == nil || !strings.Contains(err.Error(), left) || !strings.Contains(err.Error(), "the next run") {
		t.Errorf("error = %v", err)
	}

	// As long as that is so, nothing is applied from the state before.
	before := refused.Load()
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), left) || refused.Load() != before+1 {
		t.Errorf("error = %v, and the server was given %d states", err, refused.Load()-before)
	}

	server.refuseNext(0)
	if s := f.apply(f.open()); s.Any() {
		t.Errorf("it is made again: %+v\n%s", s, f.log.String())
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the state is still in the directory")
	}
}

// state returns what the server keeps for the fixture's task.
func (s *stateServer) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states["/web"]
}

// serial returns the state with its serial changed by n.
func serial(t *testing.T, state string, n int) string {
	t.Helper()
	mark, err := markOf([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(state, fmt.Sprintf(`"serial": %d`, mark.Serial), fmt.Sprintf(`"serial": %d`, int(mark.Serial)+n), 1)
}

// began has the fixture's directory say that its latest apply began from a state.
func (f *fixture) began(state string) {
	f.t.Helper()
	mark, err := markOf([]byte(state))
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := json.Marshal(mark)
	if err != nil {
		f.t.Fatal(err)
	}
	write(f.t, filepath.Join(f.dir, beganFile), string(raw))
}

// kept returns the states of a kind that are kept in the fixture's directory.
func (f *fixture) kept(kind string) (states []string) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, kind+".tfstate.*"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			f.t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
		states = append(states, read(f.t, file))
	}
	return states
}

func TestApply_LeftStateDoesNotReplaceOneThatHasGoneOn(t *testing.T) {
	f, server := onServer(t)
	f.apply(f.open())
	began := server.state()
	f.render("api", "db")
	f.apply(f.open()) // by another instance, say
	now := server.state()

	var events testtools.Output
	var want []string
	for _, c := range []struct{ name, began, left string }{
		{"older", began, began},
		{"as many changes", began, strings.Replace(now, `"api,db"`, `"cache"`, 1)},
		{"a higher serial", began, serial(t, strings.ReplaceAll(began, `"api"`, `"made meanwhile"`), +2)},
		{"another lineage", began, serial(t, strings.Replace(now, lineage(t, now), "11111111-2222-3333-4444-555555555555", 1), +2)},
		{"an unknown beginning", "", serial(t, now, +1)},
	} {
		if c.began != "" {
			f.began(c.began)
		}
		write(t, filepath.Join(f.dir, "errored.tfstate"), c.left)
		if s := f.apply(f.open(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&events, nil)) })); s.Any() {
			t.Errorf("%s: the apply changed %+v", c.name, s)
		}
		want = append(want, c.left)
		if got := f.kept("errored"); len(got) != len(want) || !slices.Contains(got, c.left) {
			t.Fatalf("%s: kept are %d states, want %d", c.name, len(got), len(want))
		}
		if exists(filepath.Join(f.dir, "errored.tfstate")) || exists(filepath.Join(f.dir, beganFile)) {
			t.Errorf("%s: the files of the apply are still there", c.name)
		}
	}
	if got := server.state(); got != now {
		t.Errorf("the backend's state was replaced by %s", got)
	}
	for name, text := range map[string]string{"output": f.log.String(), "log": events.String()} {
		if strings.Count(text, filepath.Join(f.dir, "errored.tfstate.2")) != len(want) {
			t.Errorf("the %s does not name each file once:\n%s", name, text)
		}
	}
	if !strings.Contains(events.String(), "level=WARN") {
		t.Errorf("the log has no warning: %s", &events)
	}
}

// A later process finds on disk what the apply began from.
func TestApply_LeftStateIsSavedWhereTheBackendHasNotChanged(t *testing.T) {
	f, server := onServer(t)
	f.apply(f.open())
	began := server.state()
	f.began(began)
	left := serial(t, strings.ReplaceAll(began, `"api"`, `"made meanwhile"`), +2)
	write(t, filepath.Join(f.dir, "errored.tfstate"), left)
	if _, err := f.open().saveUnsaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := server.state(); !strings.Contains(got, "made meanwhile") || len(f.kept("errored")) > 0 {
		t.Errorf("the backend has %s", got)
	}
}

// after has each apply of the fixture followed by a script, in the task's directory, as if Terraform itself
// did it. The apply fails.
func (f *fixture) after(then string) {
	f.t.Helper()
	if runtime.GOOS == "windows" {
		f.t.Skip("needs a shell")
	}
	path := filepath.Join(f.t.TempDir(), filepath.Base(f.bin.Path))
	script(f.t.(*testing.T), path, fmt.Sprintf("status=0\n%q \"$@\" || status=$?\n[ \"$1\" = apply ] || exit $status\n%s\nexit 1", f.bin.Path, then))
	f.bin = &Binary{Path: path, Version: f.bin.Version}
}

const (
	fullDisk = "\necho 'Error: Failed to save state' >&2; echo 'Error saving state: write errored.tfstate: no space left on device.' >&2"
	print    = "\ncat errored.tfstate >&2; : > errored.tfstate; : > printed" + fullDisk
)

func isLost(err error) bool {
	left := (*LostError)(nil)
	failed := (*Error)(nil)
	return errors.As(err, &left) || errors.As(err, &failed) && failed.Unsaved != nil && failed.Unsaved.Place == "" && strings.Contains(err.Error(), "is lost")
}

// On a full disk, Terraform leaves an empty errored.tfstate, and prints the state, with its secrets.
func TestUnsaved_AStateThatTerraformOnlyPrintsIsSaved(t *testing.T) {
	f, server := onServer(t)
	terraform := f.bin
	server.refuseNext(1)
	f.after(print)
	_, err := f.open().Apply(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is saved now") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error = %v", err)
	}
	if text := f.log.String() + fmt.Sprint(err); strings.Contains(text, "lineage") {
		t.Errorf("the state is in the log, or in the error:\n%s", text)
	}
	f.bin = terraform
	if s := f.apply(f.open()); s.Any() {
		t.Errorf("it is made again: %+v", s)
	}

	// The backend takes it no more than before, until the program is stopped.
	f.render("api", "db")
	f.after(print)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	left := filepath.Join(f.dir, unsavedFile)
	server.mu.Lock()
	server.refuse = func() bool {
		if raw, _ := readIfThere(left); isState(raw) && exists(filepath.Join(f.dir, "printed")) {
			stop()
		}
		return true
	}
	server.mu.Unlock()
	if _, err = f.open(func(o *Options) { o.StopSaving = time.Second }).Apply(ctx); err == nil || !strings.Contains(err.Error(), left) {
		t.Errorf("error = %v", err)
	}
	f.bin = terraform
	server.refuseNext(0)
	if s := f.apply(f.open()); s.Any() {
		t.Errorf("it is made again: %+v", s)
	}
}

func TestUnsaved_AStateThatNothingKeepsIsLost(t *testing.T) {
	for name, then := range map[string]string{
		"an empty file": ": > errored.tfstate" + fullDisk, "half a file": "head -c 300 errored.tfstate > half; mv half errored.tfstate" + fullDisk, "no file": "rm errored.tfstate" + fullDisk,
	} {
		t.Run(name, func(t *testing.T) {
			f, server := onServer(t)
			server.refuseNext(1)
			f.after(then)
			if _, err := f.open().Apply(t.Context()); !isLost(err) || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("error = %v", err)
			}
			if f.open().KeepsUnsaved() {
				t.Error("the next run believes that the state is there")
			}
		})
	}
}

// Terraform was killed while it wrote the state, or before its process could record that.
func TestUnsaved_TheNextRunFindsALostState(t *testing.T) {
	f := newFixture(t, dataModule)
	state := f.open().localState()
	f.init(f.open(), true)
	f.apply(f.open())
	before := read(t, state)
	for name, damage := range map[string]func(){
		"half an errored.tfstate":  func() { write(t, filepath.Join(f.dir, unsavedFile), before[:len(before)/2]) },
		"an empty errored.tfstate": func() { write(t, filepath.Join(f.dir, unsavedFile), "") },
		"half a local state":       func() { write(t, state+".backup", before); write(t, state, before[:len(before)/2]) },
		"an empty local state":     func() { write(t, state+".backup", before); write(t, state, "") },
	} {
		f.began(before)
		damage()
		if _, err := f.open().Apply(t.Context()); !isLost(err) {
			t.Errorf("%s: error = %v", name, err)
		}
		if s := f.apply(f.open()); s.Any() || read(t, state) != before { // a person has approved it
			t.Errorf("%s: the older state is not used: %+v", name, s)
		}
	}

	// It is not known from which state the apply began.
	if err := os.Remove(state + ".backup"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, state, before[:len(before)/2])
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error = %v", err)
	}
}

// chainModule makes one thing after the other, and says when it has begun.
const chainModule = `
variable "services" {}
resource "terraform_data" "a" { input = "a" }
resource "terraform_data" "b" {
  input = terraform_data.a.id
  provisioner "local-exec" { command = "echo > ${path.module}/begun; sleep 2" }
}
resource "terraform_data" "c" { input = terraform_data.b.id }
`

// interruptedApply applies chainModule, and interrupts it once it has begun.
func (f *fixture) interruptedApply(change ...func(*Options)) error {
	f.t.Helper()
	f.writeModule(chainModule)
	if _, err := f.open().Init(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for !exists(filepath.Join(f.module, "begun")) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	}()
	_, err := f.open(change...).Apply(ctx)
	stop()
	<-begun
	if interrupted := (*InterruptedError)(nil); !errors.As(err, &interrupted) {
		f.t.Fatalf("the apply was not interrupted: %v", err)
	}
	return err
}

func TestApply_InterruptedApplySavesItsState(t *testing.T) {
	f, server := onServer(t)
	refused := 0 // also once after Terraform has given up
	server.mu.Lock()
	server.refuse = func() bool {
		if exists(filepath.Join(f.dir, "errored.tfstate")) {
			refused++
		}
		return refused <= 1
	}
	server.mu.Unlock()
	err := f.interruptedApply()
	if !strings.Contains(err.Error(), "is saved now") {
		t.Errorf("error = %v\n%s", err, f.log.String())
	}
	if exists(filepath.Join(f.dir, "errored.tfstate")) || !strings.Contains(server.state(), "terraform_data") {
		t.Errorf("the state is not in the backend: %s", server.state())
	}
}

func TestApply_InterruptedApplyNamesTheFileOfItsState(t *testing.T) {
	f, server := onServer(t)
	server.refuseNext(1 << 20)
	soon := func(o *Options) { o.StopSaving = 3 * time.Second }
	if err := f.interruptedApply(soon); !strings.Contains(err.Error(), filepath.Join(f.dir, "errored.tfstate")) {
		t.Errorf("error = %v", err)
	}
	left := read(t, filepath.Join(f.dir, "errored.tfstate"))
	if err := errors.Join(os.Remove(filepath.Join(f.dir, "errored.tfstate")), os.Remove(filepath.Join(f.module, "begun"))); err != nil {
		t.Fatal(err)
	}

	// Where the directory does not outlive the run, it is kept elsewhere.
	var kept string
	err := f.interruptedApply(soon, func(o *Options) {
		o.Keep = func(_ context.Context, _, name string, state []byte) (string, error) {
			kept = string(state)
			return "s3://states/" + name, nil
		}
	})
	if !strings.Contains(err.Error(), "s3://states/errored.tfstate.2") || len(kept) < len(left)/2 {
		t.Errorf("error = %v, kept is %s", err, kept)
	}
}

func TestMark_Replaceable(t *testing.T) {
	began := StateMark{"L", 4, []string{"a1", "b1", "c1"}}
	left := StateMark{"L", 7, []string{"a1", "b2", "d1"}} // b changed, c destroyed, d made
	for _, c := range []struct {
		name string
		now  StateMark
		want bool
	}{
		{"what the apply began from", began, true},
		{"with b changed on the way", StateMark{"L", 5, []string{"a1", "b2", "c1"}}, true},
		{"with c destroyed and d made on the way", StateMark{"L", 6, []string{"a1", "b1", "d1"}}, true},
		{"another change of b", StateMark{"L", 5, []string{"a1", "b3", "c1"}}, false},
		{"something else made", StateMark{"L", 5, []string{"a1", "b1", "c1", "e1"}}, false},
		{"a destroyed by somebody else", StateMark{"L", 5, []string{"b1", "c1"}}, false},
		{"the same serial and other objects", StateMark{"L", 4, []string{"a1"}}, false},
		{"an older one", StateMark{"L", 3, []string{"a1"}}, false},
		{"a newer one", StateMark{"L", 7, left.Objects}, false},
		{"another lineage", StateMark{"M", 5, []string{"a1"}}, false},
		{"removed", StateMark{}, false},
	} {
		if got := Replaceable(began, c.now, left); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !Replaceable(StateMark{}, StateMark{"L", 1, nil}, left) || !Replaceable(StateMark{}, StateMark{}, left) {
		t.Error("the state of a first apply cannot be saved")
	}
	if Replaceable(StateMark{}, StateMark{"M", 1, []string{"a1"}}, left) {
		t.Error("the state of a first apply replaces one that was made meanwhile")
	}
}
