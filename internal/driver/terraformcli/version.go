package terraformcli

import (
	"context"
	"io"
	"reflect"
	"unsafe"

	"github.com/hashicorp/go-version"
)

// askVersion makes terraform-exec know the version of Terraform. It needs it for some
// commands, and would start Terraform to read it, with the answer in the log.
func (d *Dir) askVersion(ctx context.Context) {
	if d.giveVersion() {
		return
	}
	d.tf.SetStdout(io.Discard)
	d.tf.SetStderr(io.Discard)
	_, _, _ = d.tf.Version(ctx, false) // if that fails, so does the command
}

// giveVersion tells terraform-exec the version that is known, as it has no function for that:
// it would start Terraform once more for each new directory (34 ms of CPU time, of 200 for
// the first run of a small task). It reports whether terraform-exec still has the field.
func (d *Dir) giveVersion() bool {
	field := reflect.ValueOf(d.tf).Elem().FieldByName("execVersion")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*version.Version]() {
		return false
	}
	*(**version.Version)(unsafe.Pointer(field.UnsafeAddr())) = d.bin.Version
	return true
}
