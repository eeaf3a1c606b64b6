package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

func TestInit_ThePrintedCommandsPlanAndApplyTheTaskInAShell(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	r := s.run("init", "-consul-addr="+s.consul.Addr(), "-service=web", "-dir=my network")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "Wrote "+filepath.Join("my network", "tasks.yaml"))
	_, next, _ := strings.Cut(r.stdout, "Next:\n")

	// terrapulse on PATH is this program; its port is a free one.
	port := s.write("port.yaml", "port: 0\n")
	s.write("bin/terrapulse", "#!/bin/sh\ncase \"$1\" in start) exec \""+os.Args[0]+"\" \"$@\" -config-file \""+port+"\";; *) exec \""+os.Args[0]+"\" \"$@\";; esac\n")
	lines := strings.Split(strings.TrimSpace(next), "\n")
	last := len(lines) - 1
	lines[last], _, _ = strings.Cut(lines[last], "#")
	script := strings.Join(lines[:last], "\n") + "\n" + lines[last] + " 2>start.log &\n" +
		"until grep -q 'msg=leading' start.log; do kill -0 $!; sleep 0.1; done\nkill -INT $!; wait $!\n"
	cmd := exec.CommandContext(t.Context(), "bash", "-e")
	cmd.Stdin, cmd.Dir = strings.NewReader(script), s.dir
	cmd.Env = append(append(os.Environ(), "TERRAPULSE_TEST_AS_PROGRAM=1"), s.env...)
	for i, v := range cmd.Env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			cmd.Env[i] = "PATH=" + s.path("bin") + string(os.PathListSeparator) + path
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s\n%s", err, script, out)
	}
	wantText(t, string(out), `terraform_data.instance["web-1`, "1 to add", "1 succeeded; 1 added, 0 changed, 0 destroyed")
}

func TestInit_WithoutATerminalTheFlagsSayAll(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	t.Chdir(s.dir)
	t.Setenv("CONSUL_HTTP_ADDR", s.consul.Addr())

	r := s.runInTest("init")
	wantCode(t, r, exitMissing)
	wantText(t, r.stderr, "with -service", "has web, consul")
	if _, err := os.Stat("tasks.yaml"); err == nil {
		t.Error("a file was written")
	}

	var got firstTask
	decode(t, s.runInTest("init", "-json", "-service=web", "-service=db", "-task=lb"), &got)
	if got.Task != "lb" || strings.Join(got.Files, " ") != "tasks.yaml "+filepath.Join("lb", "main.tf") || len(got.Next) != 3 {
		t.Errorf("it prints %+v", got)
	}

	before := s.read("tasks.yaml")
	r = s.runInTest("init", "-service=db")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "tasks.yaml is there already: nothing was written. Name another folder with -dir", "https://github.com/terrapulse/terrapulse/blob/main/docs/reference/README.md")
	if s.read("tasks.yaml") != before {
		t.Error("the file was replaced")
	}
}

// A shell enters the very folder that was named, and runs nothing else.
func TestInit_TheCommandEntersAnyFolder(t *testing.T) {
	for _, name := range []string{"network", "my network", "a`touch made`", "a|touch made", "a*b", "<in", ">made", "it's", "$(touch made)", "!!", "a;touch made", "~", "#x", "-P", "Zürich", "a\\b", "[a]", "{a,b}", "a\ttab"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", enter(name)+"pwd")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || filepath.Base(got) != name {
			t.Errorf("%q: the command %q leads to %q, %v", name, enter(name), got, err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("%q: the command makes %v, %v", name, all, err)
		}
	}
	if got := enter("network/a.b_c-1"); got != "  cd network/a.b_c-1\n" {
		t.Errorf("the command for a harmless folder is %q", got)
	}
}

func TestInit_SaysWhatIsWrongWithConsul(t *testing.T) {
	s := newSite(t, consultest.WithACLs())
	s.register("web", "web-1", 8080, "passing")
	t.Chdir(s.dir)
	t.Setenv("CONSUL_HTTP_TOKEN", "")
	wantText(t, s.runInTest("init", "-consul-addr=127.0.0.1:1", "-service=web").stderr, "127.0.0.1:1", "nothing was written", "-consul-addr")

	r := s.runInTest("init", "-consul-addr="+s.consul.Addr())
	wantCode(t, r, exitMissing)
	wantText(t, r.stderr, "has no service", "access control hides others", "https://github.com/terrapulse/terrapulse/blob/main/docs/acl.md")

	// The files are fine although the token is not: the right is what is to be corrected.
	r = s.runInTest("init", "-consul-addr="+s.consul.Addr(), "-service=web")
	wantCode(t, r, exitConfig)
	wantText(t, r.stdout, "Wrote tasks.yaml", "terrapulse validate -config-file tasks.yaml -consul")
	wantText(t, r.stderr, `service:read on "web"`)
}
