package terraformcli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// encryptedState is a state as OpenTofu encrypts it with a passphrase.
const encryptedState = `{"serial":1,"lineage":"5c2ab62e-8f2c-2c1f-7a7c-5a4c3f7b9d10",` +
	`"meta":{"key_provider.pbkdf2.key":"eyJzYWx0IjoiVEhnPSIsIml0ZXJhdGlvbnMiOjYwMDAwMCwiaGFzaF9mdW5jdGlvbiI6InNoYTUxMiIsImtleV9sZW5ndGgiOjMyfQ=="},` +
	`"encrypted_data":"pXYzTbHfWl0yVtQ4c0m5dQ==","encryption_version":"v0"}`

func TestState_EncryptedOneIsWholeButHasNoMark(t *testing.T) {
	half := encryptedState[:len(encryptedState)/2]
	without := strings.Replace(encryptedState, `"serial":1,"lineage":"5c2ab62e-8f2c-2c1f-7a7c-5a4c3f7b9d10",`, "", 1)
	for raw, whole := range map[string]bool{encryptedState: true, without: true, half: false, "{}": false} {
		if isState([]byte(raw)) != whole {
			t.Errorf("whole: %v, want %v: %s", !whole, whole, raw)
		}
	}
	if mark, err := markOf([]byte(encryptedState)); err == nil {
		t.Errorf("what it has is not known, but its mark is %+v", mark)
	}
}

// encrypts has the fixture's Terraform write the local state as OpenTofu does that encrypts. For the test, base64
// is the cipher.
func (f *fixture) encrypts() {
	f.t.Helper()
	if runtime.GOOS == "windows" {
		f.t.Skip("needs a shell")
	}
	state := f.open().localState()
	path := filepath.Join(f.t.TempDir(), filepath.Base(f.bin.Path))
	script(f.t.(*testing.T), path, fmt.Sprintf(`state=%q
if grep -q encrypted_data "$state" 2>/dev/null; then
	sed 's/.*"encrypted_data":"\([^"]*\)".*/\1/' "$state" | base64 -d > "$state.plain" && cat "$state.plain" > "$state"
fi
status=0
%q "$@" || status=$?
if [ -s "$state" ]; then
	text=$(base64 < "$state" | tr -d '\n')
	printf '{"meta":{},"encrypted_data":"%%s","encryption_version":"v0"}' "$text" > "$state"
fi
exit $status`, state, f.bin.Path))
	f.bin = &Binary{Path: path, Version: f.bin.Version}
}

func TestApply_ContinuesFromAnEncryptedLocalState(t *testing.T) {
	f := newFixture(t, fileModule)
	f.encrypts()
	f.continuesEncrypted()
}

func TestApply_OpenTofuContinuesFromTheStateThatItEncrypts(t *testing.T) {
	path := testtools.OpenTofu(t)
	f := newFixture(t, fileModule)
	v, err := Version(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	f.bin = &Binary{Path: path, Version: v}
	t.Setenv("TF_ENCRYPTION", `key_provider "pbkdf2" "key" { passphrase = "correct horse battery staple" }
method "aes_gcm" "method" { keys = key_provider.pbkdf2.key }
state {
  method   = method.aes_gcm.method
  enforced = true
}`)
	f.continuesEncrypted()
}

// continuesEncrypted applies twice.
func (f *fixture) continuesEncrypted() {
	f.t.Helper()
	f.init(f.open(), true)
	if s := f.apply(f.open()); s.Add != 1 {
		f.t.Errorf("the first apply changes %+v", s)
	}
	if raw, err := os.ReadFile(f.open().localState()); err != nil || !isEncrypted(raw) {
		f.t.Fatalf("the state is not encrypted: %v\n%s", err, raw)
	}
	hasState := func(o *Options) { o.HasState = true }
	if s := f.apply(f.open(hasState)); s.Any() {
		f.t.Errorf("the second apply changes %+v", s)
	}
	if n, err := f.open().Managed(f.t.Context()); n != 1 || err != nil {
		f.t.Errorf("the state has %d resources: %v", n, err)
	}
}

func TestUnsaved_AnEncryptedStateIsForAPersonToSave(t *testing.T) {
	f, server := onServer(t)
	f.apply(f.open())
	before := server.state()
	left := filepath.Join(f.dir, unsavedFile)
	write(t, left, encryptedState)
	f.began(before)
	for range 2 {
		_, err := f.open().Apply(t.Context())
		if err == nil || isLost(err) || !strings.Contains(err.Error(), left) || !strings.Contains(err.Error(), "save it by hand") {
			t.Fatalf("error = %v", err)
		}
	}
	if read(t, left) != encryptedState || server.state() != before || len(f.kept("errored")) > 0 {
		t.Error("the state was moved or replaced")
	}
}

func TestTakeAlong_AnEncryptedStateThatIsNotSavedIsForAPersonToSave(t *testing.T) {
	bin := recorder(t, "")
	d, err := bin.Open(t.TempDir(), Options{Task: "web"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, unsavedFile), encryptedState)
	_, _, err = d.takeUnsaved(t.Context(), d, Former{Task: "old", Dirs: []string{dir}}, nil)
	if err == nil || !strings.Contains(err.Error(), dir) || !exists(filepath.Join(dir, unsavedFile)) {
		t.Errorf("error = %v", err)
	}
}

func TestCurrent_OpenTofuReadsAnEncryptedStateInS3(t *testing.T) {
	bin := recorder(t, `echo '{"version": 4, "lineage": "tofu"}'`)
	o := inS3(nil)
	o.ReadS3 = func(context.Context, S3Object) ([]byte, error) { return []byte(encryptedState), nil }
	d, err := bin.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.current(t.Context()); err != nil || !strings.Contains(string(got), "tofu") {
		t.Errorf("%q, %v", got, err)
	}
}
