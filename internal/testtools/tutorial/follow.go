//go:build unix

package tutorial

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Reader follows a page in a folder of its own.
type Reader struct {
	Dir     string // where the commands run
	Env     []string
	Replace []Replacement
}

// Replacement is a text of the page with what this machine has in its place, such as a port.
type Replacement struct{ Page, Here string }

// Patience is how long a command may take, or may be repeated.
const Patience = time.Minute

// Follow does all steps of a page that need no AWS account, and ends what the commands have started.
func (r Reader) Follow(t *testing.T, page string) {
	t.Helper()
	steps, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 {
		t.Fatal("the page has no steps")
	}
	sh := r.shell(t)
	for _, step := range steps {
		switch {
		case step.Special == NeedsAccount:
		case step.File != "":
			file := filepath.Join(r.Dir, filepath.FromSlash(step.File))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(r.here(step.Text)), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			r.command(t, sh, step)
		}
	}
}

func (r Reader) command(t *testing.T, sh *shell, step Step) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(100 * time.Millisecond) {
		output, failed := sh.run(t, r.here(step.Text))
		output = r.there(output)
		if !failed && Fits(output, step.Want) {
			return
		}
		if step.Special == "repeat" && time.Now().Before(deadline) {
			continue
		}
		t.Fatalf("line %d: $ %s\nprints (error: %v):\n%s\nThe page shows:\n%s", step.Line, step.Text, failed, output, step.Want)
	}
}

// here is a text of the page as this machine needs it.
func (r Reader) here(text string) string {
	for _, each := range r.Replace {
		text = strings.ReplaceAll(text, each.Page, each.Here)
	}
	return text
}

// there is an output of this machine as the page shows it.
func (r Reader) there(text string) string {
	for _, each := range r.Replace {
		text = strings.ReplaceAll(text, each.Here, each.Page)
	}
	return text
}

// shell is a bash that runs one command after the other.
type shell struct {
	cmd   *exec.Cmd
	in    *os.File
	lines chan string
	ended chan struct{} // closed when everything that the shell has started has ended
}

const marker = "the command has ended with "

func (r Reader) shell(t *testing.T) *shell {
	t.Helper()
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	held, hold, err := os.Pipe() // everything inherits the end that is written
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = r.Dir, r.Env, stdin, stdout
	cmd.ExtraFiles = []*os.File{hold}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := testtools.StartWithTest(cmd); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	hold.Close()
	sh := &shell{cmd: cmd, in: in, lines: make(chan string, 1000), ended: make(chan struct{})}
	go func() {
		_, _ = held.Read(make([]byte, 1)) // until the end of the file
		held.Close()
		close(sh.ended)
	}()
	go func() {
		defer close(sh.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			sh.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { sh.end(out) })
	return sh
}

// end ends the shell and everything that it has started.
func (sh *shell) end(out *os.File) {
	group := -sh.cmd.Process.Pid
	sh.in.Close()
	_ = syscall.Kill(group, syscall.SIGTERM) // fails only if all have ended
	go func() {
		for range sh.lines { // lets the reader end
		}
	}()
	_ = sh.cmd.Wait()
	select {
	case <-sh.ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(group, syscall.SIGKILL)
	}
	out.Close()
}

// run returns what a command has printed, and whether it has failed.
func (sh *shell) run(t *testing.T, command string) (output string, failed bool) {
	t.Helper()
	if _, err := fmt.Fprintf(sh.in, "{ %s\n} </dev/null 2>&1; printf '\\n%s%%s\\n' $?\n", command, marker); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	limit := time.After(Patience)
	for {
		select {
		case line, open := <-sh.lines:
			if code, ended := strings.CutPrefix(line, marker); ended {
				return text.String(), code != "0"
			}
			if !open {
				t.Fatalf("$ %s\nhas ended the shell:\n%s", command, text.String())
			}
			text.WriteString(line + "\n")
		case <-limit:
			t.Fatalf("$ %s\nhas not ended within %v:\n%s", command, Patience, text.String())
		}
	}
}
