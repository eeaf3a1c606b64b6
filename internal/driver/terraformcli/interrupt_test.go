package terraformcli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// slowModule takes as long as it is let, and says so.
const slowModule = `
variable "services" {}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo started > ${path.module}/started; exec sleep 300"
  }
}
`

func (f *fixture) started() bool {
	_, err := os.Stat(filepath.Join(f.module, "started"))
	return err == nil
}

func TestApply_InterruptedTerraformEndsAndLeavesNoLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no interrupts")
	}
	f := newFixture(t, slowModule)
	d := f.open()
	f.init(d, true)
	ctx, cancel := context.WithCancelCause(t.Context())
	shutdown := errors.New("Terrapulse is shutting down")
	go func() {
		defer cancel(shutdown)
		for deadline := time.Now().Add(time.Minute); !f.started() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := d.Apply(ctx)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, shutdown) {
		t.Fatalf("got %v", err)
	}
	if want := "terraform apply of task web was interrupted: Terrapulse is shutting down"; err.Error() != want {
		t.Errorf("got %q", err)
	}
	if !strings.Contains(f.log.String(), "Interrupt received") {
		t.Errorf("Terraform was not asked to end:\n%s", f.log.String())
	}
	f.writeModule(fileModule)
	f.apply(f.open(func(o *Options) { o.LockTimeout = time.Millisecond }))
}

func TestApply_KillsTerraformAfterItsGrace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `trap '' INT; echo Begun; exec sleep 300`)
	ctx := f.untilPrinted("Begun")
	_, err := f.open(func(o *Options) { o.Grace = 100 * time.Millisecond }).Apply(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestApply_SucceedsIfTerraformDidInSpiteOfAnInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `trap 'echo "Apply complete! Resources: 1 added, 0 changed, 0 destroyed."; exit 0' INT
echo Begun; while :; do sleep 0.01; done`)
	ctx := f.untilPrinted("Begun")
	s, err := f.open().Apply(ctx)
	if err != nil || s.Add != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestApply_IsInterruptedIfOnlyItsInitSucceeded(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `case "$1" in
apply) echo "Error: Required plugins are not installed" >&2; exit 1;;
init) trap 'exit 0' INT; echo Initializing; while :; do sleep 0.01; done;;
esac`)
	_, err := f.open().Apply(f.untilPrinted("Initializing"))
	if interrupted := (*InterruptedError)(nil); !errors.As(err, &interrupted) || interrupted.Name != "init" {
		t.Errorf("got %v", err)
	}
}

// untilPrinted returns a context that ends when Terraform has printed the text. Before that, it may
// still be about to start, and its output is not read.
func (f *fixture) untilPrinted(text string) context.Context {
	ctx, cancel := context.WithCancel(f.t.Context())
	go func() {
		defer cancel()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if strings.Contains(f.log.String(), text) {
				return
			}
		}
	}()
	return ctx
}
