package main

import (
	"strings"
	"syscall"
	"testing"
)

func TestTaskFilesAreReadAgainWithoutARestart(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.register("db", "db-1", 5432, "passing")
	file := s.config(s.task("lb", onWeb))
	p := s.start("-config-file", file)
	eventually(t, "the first apply", func() bool { return s.read("lb.txt") != "" })

	onDB := strings.ReplaceAll(onWeb, "web", "db")
	s.config(s.task("lb", onWeb) + s.task("more", onDB))
	eventually(t, "a new task is applied", func() bool { return strings.HasPrefix(s.read("more.txt"), "db ") })
	s.register("db", "db-2", 5433, "passing")
	eventually(t, "its condition is watched", func() bool { return strings.Contains(s.read("more.txt"), "5433") })

	const idle = "condition \"schedule\" {\n  cron = \"0 0 * * SAT-SUN\"\n}"
	s.config(s.task("lb", onDB) + s.task("more", onDB) + s.task("weekly", idle))
	if err := p.Process.Signal(syscall.SIGHUP); err != nil { // at once
		t.Fatal(err)
	}
	eventually(t, "a changed task is applied anew", func() bool { return strings.HasPrefix(s.read("lb.txt"), "db ") })

	s.config("# lines move\n" + s.task("lb", onDB) + s.task("more", onDB) + s.task("weekly", idle))
	eventually(t, "they are read again", func() bool { return strings.Count(p.stderr.String(), "task files read again") >= 3 })
	if n := strings.Count(p.stderr.String(), "leaves Sunday out"); n != 1 {
		t.Errorf("what deserves a word was said %d times", n)
	}

	s.config(s.task("lb", "condition \"nonsense\" {}"))
	eventually(t, "the status tells what is wrong", func() bool {
		return strings.Contains(unwrapped(s.run("status").stdout), `tasks.hcl:21: task[0].condition.nonsense: unsupported condition type "nonsense"`)
	})
	said := func() int { return strings.Count(p.stderr.String(), "the task files are wrong") }
	eventually(t, "the log tells, too", func() bool { return said() == 1 })
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "who asks again is told again", func() bool { return said() == 2 })
	s.register("db", "db-3", 5434, "passing")
	eventually(t, "what was read before stays in force", func() bool {
		return strings.Contains(s.read("lb.txt"), "5434") && strings.Contains(s.read("more.txt"), "5434")
	})

	s.config(s.task("more", onDB))
	eventually(t, "a removed task is said to be removed, and no fault is left", func() bool {
		out := s.run("status").stdout
		return strings.Contains(out, "removed") && !strings.Contains(out, "Problem:")
	})
	if out := s.run("status", "-http-addr", p.served()).stdout; !strings.Contains(out, "lb      removed") {
		t.Errorf("the removed task is not shown over the API:\n%s", out)
	}
	wantText(t, s.run("status", "-json").stdout, "this counts as its removal if it lasts until")
	if n := strings.Count(p.stderr.String(), "a task is not in the configuration any more"); n != 0 { // its file may be back in a moment
		t.Errorf("it is said %d times that a task is gone", n)
	}
	s.env = append(s.env, "CTS_ADDRESS="+p.served())
	wantCode(t, s.program("forget", "more"), exitError) // there is such a task
	wantText(t, s.program("forget", "lb").stdout, "Terraform state (workspace lb) stay")
	if out := s.run("status").stdout; strings.Contains(out, "lb") {
		t.Errorf("the task is still there: %s", out)
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
