package terraformcli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// secretModule shows what a person should not see: it is not marked sensitive.
const secretModule = `
variable "services" {}
resource "local_file" "names" {
  filename = "${path.module}/names.txt"
  content  = "${file("${path.module}/secret.txt")}"
}
`

func TestSecrets_ReachOnlyTerraform(t *testing.T) {
	f := newFixture(t, secretModule)
	const password, env = `pass"w\ord-${x}`, "env-secret-value"
	// A provider block refers to a variable that is not in any file. The module
	// shows the same texts in its plan.
	write(t, filepath.Join(f.module, "secret.txt"), "a "+env+" b "+password+" tcp")
	write(t, filepath.Join(f.dir, "extra.tf"), `
variable "p" {}
output "seen" { value = nonsensitive(sha256(var.p.password)) }
`)
	d := f.open(func(o *Options) {
		o.Env = map[string]string{"TOKEN": env}
		o.VarJSON = []byte(`{"p": {"password": "pass\"w\\ord-${x}", "proto": "tcp", "list": [{"x": null}]}}`)
	})
	f.init(d, true)
	f.apply(d)

	log := f.log.String()
	for _, secret := range []string{password, env, `pass\"w`} {
		if strings.Contains(log, secret) {
			t.Errorf("the log shows %q:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, "a (redacted) b (redacted) tcp") {
		t.Errorf("the log does not show what was made unreadable:\n%s", log)
	}
	// sha256 of the password, by another hand: it arrived as it was.
	sum, err := exec.Command("sh", "-c", `printf '%s' 'pass"w\ord-${x}' | sha256sum`).Output()
	if err != nil {
		t.Skip("no sha256sum here")
	}
	if !strings.Contains(log, strings.Fields(string(sum))[0]) {
		t.Errorf("Terraform got another password:\n%s", log)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
	if state := read(t, filepath.Join(f.dir, ".terraform", initFile)); strings.Contains(state, "pass") {
		t.Errorf("the record of the init holds a secret: %s", state)
	}
}

func TestSecrets_AreInAPipeAndNotInTheArguments(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no named pipes in its file system")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `
for a; do case "$a" in
-var-file=*) file="${a#-var-file=}"; [ -p "$file" ] && echo "pipe $(cat "$file") $(cat "$file")";;
esac; done`)
	if _, err := f.open(func(o *Options) { o.VarJSON = []byte(`{"p":"hidden-value"}`) }).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(f.bin.recorded(t, "argv"), "hidden-value") || strings.Contains(f.bin.recorded(t, "env"), "hidden-value") {
		t.Error("the secret is in the arguments or the environment")
	}
	if got, want := f.log.String(), `pipe {"p":"(redacted)"} {"p":"(redacted)"}`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q: the pipe can be read twice", got, want)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
}

func TestSecrets_AreNotInErrors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `printf '%s\n' "" "Error: refused" "" "The password hidden-value is wrong" >&2; exit 1`)
	_, err := f.open(func(o *Options) { o.VarJSON = []byte(`{"p":"hidden-value"}`) }).Apply(t.Context())
	if err == nil || strings.Contains(err.Error(), "hidden-value") || !strings.Contains(err.Error(), "The password (redacted) is wrong") {
		t.Errorf("got %v", err)
	}
}

func TestSecrets_AreRedactedIfTerraformWrapsThem(t *testing.T) {
	const phrase = "correct horse battery staple, which is longer than a line of Terraform, and so is broken at a space or two"
	f := newFixture(t, fmt.Sprintf("variable \"services\" {}\nresource \"local_file\" \"x\" {\n  filename = \"/proc/%s/x\"\n  content = \"\"\n}", phrase))
	d := f.open(func(o *Options) { o.Secrets = []string{phrase} })
	f.init(d, true)
	_, err := d.Apply(t.Context())
	if err == nil {
		t.Fatal("the apply has succeeded")
	}
	for where, text := range map[string]string{"the error": err.Error(), "the log": f.log.String()} {
		for _, word := range []string{"correct", "horse", "broken", "two"} {
			if strings.Contains(text, word) {
				t.Errorf("%s shows %q:\n%s", where, word, text)
			}
		}
		if !strings.Contains(text, "/proc/"+redact.Redacted) {
			t.Errorf("%s lacks what was made unreadable:\n%s", where, text)
		}
	}
}

func TestSecrets_OfABackendAreRedacted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	text := cty.StringVal
	f.cfg.Terraform.Backend = config.Backend{Type: "any", Body: config.Body{
		Attributes: map[string]cty.Value{
			"conn_str": text("postgres://u:pg-pass@host:1x/db"), "secret_key": text("s3-key"), "password": text("http-pass"), "access_token": text("consul-token"),
			"region": text("eu-central-1"), "secret_suffix": text("state"), "encryption_key": cty.NullVal(cty.String),
			"assume_role_with_web_identity": cty.ObjectVal(map[string]cty.Value{"web_identity_token": text("in-an-object"), "role_arn": text("arn:role")}),
		},
		Blocks: map[string][]config.Body{"auth": {{Attributes: map[string]cty.Value{"client_secret": text("in-a-block")}}}},
	}}
	const said = "in eu-central-1 of arn:role the state is at "
	f.bin = recorder(t, `echo "Error: `+said+`postgres://u:pg-pass@host:1x/db s3-key http-pass consul-token in-an-object in-a-block" >&2; exit 1`)
	_, err := f.open().Apply(t.Context())
	want := said + strings.TrimSpace(strings.Repeat(redact.Redacted+" ", 6))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if log := f.log.String(); !strings.Contains(log, want) {
		t.Errorf("the log is %s", log)
	}
}
