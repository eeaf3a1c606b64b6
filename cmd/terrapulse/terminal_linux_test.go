package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestATerminalGetsColourAndAPipeNone(t *testing.T) {
	screen := terminal(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !colored(screen) {
		t.Error("a terminal gets no colour")
	}
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if colored(pipe) {
		t.Error("a pipe gets colour")
	}
	t.Setenv("NO_COLOR", "1")
	if colored(screen) {
		t.Error("a terminal gets colour in spite of NO_COLOR")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if colored(screen) {
		t.Error("a terminal that knows no colour gets it")
	}
}

func TestPrinted_TextIsWrappedOnATerminalAndNotInAPipe(t *testing.T) {
	const words = "the 'services' field in the task block is no longer supported"
	long := errors.New(strings.Repeat("before ", 8) + words)
	printed := func(stdout, stderr io.Writer) {
		a := &app{ctx: t.Context(), program: ctsName, stdout: stdout, stderr: stderr}
		a.say("%s", long)
		a.problem("unable to create 'lb'", long)
		a.paragraph("", long.Error())
		var tab table
		tab.row(plain, "TASK")
		tab.note("  ", long.Error())
		tab.print(stdout)
	}
	var pipe testtools.Output
	printed(&pipe, &pipe)
	if n := strings.Count(pipe.String(), words); n != 4 {
		t.Errorf("a script finds its words %d times, want 4:\n%s", n, pipe.String())
	}
	master, screen := terminalPair(t)
	var seen testtools.Output
	go func() { _, _ = io.Copy(&seen, master) }()
	printed(screen, screen)
	eventually(t, "a terminal gets lines that fit", func() bool { return strings.Count(seen.String(), "supported") == 4 })
	for line := range strings.SplitSeq(seen.String(), "\n") {
		if len(line) > 84 {
			t.Errorf("a terminal gets a line of %d columns: %s", len(line), line)
		}
	}
}

func TestOnce_ShowsProgressOnATerminalAndOneLineInTheEnd(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb) + s.task("off", "enabled = false\n"+onWeb))
	t.Setenv("TERM", "xterm")
	for _, mode := range []struct{ args, shown, line string }{
		{"start -once -store sqlite:" + s.path("state.db"), "0 of 1 done, running: lb 0s", `(?m)^2 tasks in [0-9.]+m?s: 1 disabled, 1 succeeded; 1 added, 0 changed, 0 destroyed$`},
		{"inspect", "0 of 2 done, being planned: lb 0s", `(?m)^2 tasks in [0-9.]+m?s: 0 with changes, 0 failed; 0 to add, 0 to change, 0 to destroy$`},
	} {
		master, screen := terminalPair(t)
		var seen, stdout testtools.Output
		go func() { _, _ = io.Copy(&seen, master) }()
		a := &app{ctx: t.Context(), program: ownName, stdin: strings.NewReader(""), stdout: &stdout, stderr: screen}
		if code := a.run(append(strings.Fields(mode.args), "-config-file", file)); code != exitOK {
			t.Errorf("%s: exit code %d: %s", mode.args, code, seen.String())
		}
		eventually(t, "the terminal has shown what runs", func() bool { return strings.Contains(seen.String(), mode.shown) })
		if !regexp.MustCompile(mode.line).MatchString(stdout.String()) {
			t.Errorf("%s: no line sums up: %s", mode.args, stdout.String())
		}
	}
}

// terminal opens a new pseudo-terminal.
func terminal(t *testing.T) *os.File {
	t.Helper()
	_, screen := terminalPair(t)
	return screen
}

// terminalPair opens a new pseudo-terminal, and the end that its user has.
func terminalPair(t *testing.T) (master, screen *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlocked, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return master, screen
}
