package main

import (
	"bytes"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestInit_AsksOnATerminal(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	s.register("db", "db-1", 5432, "passing")
	t.Chdir(s.dir)
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
	master, screen := terminalPair(t)
	var seen testtools.Output
	go func() {
		var buffer [4096]byte
		for {
			n, err := master.Read(buffer[:])
			if err != nil {
				return
			}
			seen.Write(buffer[:n])
		}
	}()
	ended := make(chan int, 1)
	a := &app{ctx: t.Context(), program: ownName, stdin: screen, stdout: screen, stderr: screen}
	go func() { ended <- a.run([]string{"init"}) }()
	for _, step := range []struct{ question, answer string }{
		{"Where is Consul? [127.0.0.1:1]: ", s.consul.Addr()},
		{"Names or numbers [db]: ", "nope"},
		{"Consul shows no service nope", ""},
		{"Names or numbers [db]: ", "2, db, web"},
	} {
		eventually(t, step.question, func() bool { return bytes.Contains([]byte(seen.String()), []byte(step.question)) })
		if step.answer != "" {
			if _, err := master.WriteString(step.answer + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if code := <-ended; code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, seen.String())
	}
	wantText(t, s.read("tasks.yaml"), "address: "+s.consul.Addr()+"\n", "names: [web, db]", "name: web\n")
}
