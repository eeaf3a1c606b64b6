package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// What names a place holds for every command that reads or decides: a flag beats the environment,
// where CTS_ADDRESS beats TERRAPULSE_STORE.
func TestCommands_UseThePlaceThatIsNamed(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		http.Error(w, `{"error":{"message":"from the API"}}`, http.StatusTeapot)
	}))
	defer api.Close()
	other := "http://127.0.0.1:1"
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	store, port := "sqlite:"+s.path("none.db"), api.URL[strings.LastIndex(api.URL, ":")+1:]
	commands := [][]string{{"status"}, {"status", "-health"}, {"events"}, {"audit"}, {"runs", "lb"}, {"logs", "lb"}, {"approve", "lb"}, {"reject", "-comment=no", "lb"}, {"plan", "show", "lb"}, {"hold", "lb"}, {"release", "lb"}, {"pause"}, {"resume"}}
	for _, tt := range []struct {
		name           string
		address, store string
		flags          []string
		api            bool
	}{
		{"CTS_ADDRESS", api.URL, "", nil, true},
		{"CTS_ADDRESS and TERRAPULSE_STORE", api.URL, store, nil, true},
		{"-http-addr", other, store, []string{"-http-addr=" + api.URL}, true},
		{"-port", other, store, []string{"-port=" + port}, true},
		{"-store", api.URL, "", []string{"-store=" + store}, false},
		{"TERRAPULSE_STORE", "", store, nil, false},
	} {
		t.Setenv("CTS_ADDRESS", tt.address)
		t.Setenv("TERRAPULSE_STORE", tt.store)
		for _, command := range commands {
			asked = nil
			words := 1
			if command[0] == "plan" {
				words = 2
			}
			r := s.bare(command[0], slices.Concat(command[1:words], tt.flags, command[words:])...)
			if got := len(asked) > 0; got != tt.api {
				t.Errorf("%s: %v requested %v: %s", tt.name, command, asked, r.stderr)
			}
		}
	}
	t.Setenv("CTS_ADDRESS", "")
	t.Setenv("TERRAPULSE_STORE", "")
	wantText(t, s.bare("plan", "show", "-http-addr="+api.URL, "lb").stderr, "unable to show the plan of 'lb'")
	wantText(t, s.bare("status").stderr, "no state yet", "-http-addr (or CTS_ADDRESS)")
}

// Task files do not say with which -store an instance was started. Commands find that store all the same.
func TestCommands_FindTheStoreOfAnInstanceByItsTaskFiles(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	instance := s.start("-config-file", file) // with -store=sqlite:state.db
	eventually(t, "the service is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
	r := s.bare("pause", "-config-file", file)
	wantCode(t, r, exitOK)
	if r.stderr != "" {
		t.Errorf("pause says %s", r.stderr)
	}
	eventually(t, "the instance is paused", func() bool { return strings.Contains(instance.stderr.String(), "event=paused") })
	wantCode(t, s.bare("resume", "-config-file", file), exitOK)
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "the change is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })
	if code := instance.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	// Nothing leads now.
	r = s.bare("hold", "-config-file", file, "lb")
	wantCode(t, r, exitOK)
	wantText(t, r.stderr, "No instance leads in the store "+s.path("state.db"), "another -store")

	// A file that nobody can read is reported.
	if err := os.WriteFile(s.path("work/terrapulse.store"), []byte("elsewhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, s.bare("status", "-config-file", file).stderr, "terrapulse.store", "name the store with -store")
}

// storeOf is the store that commands find with the task files.
func (s *site) storeOf(file string) string {
	s.t.Helper()
	var shown apispec.Overview
	if r := s.bare("status", "-json", "-config-file", file); json.Unmarshal([]byte(r.stdout), &shown) != nil || shown.Store == nil {
		s.t.Fatalf("status prints %s%s", r.stdout, r.stderr)
	}
	return shown.Store.Where
}

// As docs/reference/commands.md says under "Which store commands find".
func TestCommands_FindTheStoreOfTheInstanceThatStays(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file, configured := s.config(s.task("lb", onWeb)), s.path("work/terrapulse.db")
	wants := func(when, store string) {
		t.Helper()
		if got := s.storeOf(file); got != store {
			t.Errorf("%s, commands use %s, want %s", when, got, store)
		}
	}
	serves := func(p *process) func() bool {
		return func() bool { return strings.Contains(p.stderr.String(), "msg=leading") }
	}
	once := func(flags ...string) {
		t.Helper()
		wantCode(t, s.bare("start", append([]string{"-once", "-config-file", file}, flags...)...), exitOK)
	}

	once("-store=sqlite:" + s.path("other.db"))
	once()
	wants("without an instance", configured)

	first := s.start("-config-file", file) // with -store=sqlite:state.db
	eventually(t, "it leads", serves(first))
	wants("with an instance", s.path("state.db"))
	once()
	wants("after once-mode without -store", s.path("state.db"))
	once("-store=sqlite:" + s.path("other.db"))
	wants("after once-mode in another store", s.path("state.db"))

	_, port, _ := strings.Cut(strings.TrimPrefix(first.served(), "http://"), ":")
	busy := s.write("busy.yaml", "port: "+port+"\n")
	r := s.bare("start", "-store=sqlite:"+s.path("busy.db"), "-config-file", file, "-config-file", busy)
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "port "+port, "another program has it", "set port in the configuration")
	wants("after a start that found its port in use", s.path("state.db"))

	// The store stays where it is when working_dir is changed, until the restart.
	text := s.read("tasks.hcl")
	s.write("tasks.hcl", strings.Replace(text, s.path("work"), s.path("moved"), 1))
	eventually(t, "the files are read again", func() bool { return strings.Contains(first.stderr.String(), "task files read again") })
	wants("after a reload with another working_dir", s.path("state.db"))

	first.Process.Kill()
	<-first.ended
	wants("after a crash", s.path("state.db"))

	second := s.startBare("-config-file", file)
	eventually(t, "it leads", serves(second))
	wants("after a start without -store", s.path("moved/terrapulse.db"))
	s.write("tasks.hcl", text)
	eventually(t, "the files are read again", func() bool { return strings.Contains(second.stderr.String(), "task files read again") })
	wants("after a reload of an instance in its own folder", s.path("moved/terrapulse.db"))
	if code := second.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	wants("after a stop", s.path("moved/terrapulse.db"))
}

// Two stores would give the same Terraform states two leaders.
func TestOnce_WithoutStoreUsesThatOfTheInstanceWithTheseTaskFiles(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	t.Setenv("API_TOKEN", "0123456789abcdef")
	lb, second := s.task("lb", onWeb), s.task("second", onWeb)
	file := s.config("api {\n  token = \"{{ env \\\"API_TOKEN\\\" }}\"\n}\n" + lb + second)
	once := func(code int, file string, texts ...string) result {
		t.Helper()
		r := s.bare("start", "-once", "-config-file", file)
		wantCode(t, r, code)
		wantText(t, r.stderr, texts...)
		return r
	}
	configured := func() bool {
		_, err := os.Stat(s.path("work/terrapulse.db"))
		return err == nil
	}
	p := s.start("-config-file", file) // with -store=sqlite:state.db
	eventually(t, "both tasks are applied", func() bool { return strings.Count(s.bare("status", "-config-file", file).stdout, "applied") == 2 })

	s.write("lb.txt", "changed by hand")
	r := once(exitOK, file, "latest instance with these task files", s.path("state.db"), "another instance leads on this store")
	wantText(t, r.stdout, "lb", "second", "succeeded")
	if got := s.read("lb.txt"); !strings.HasPrefix(got, "web ") {
		t.Errorf("the change by hand was not put right: %q", got)
	}
	if n := strings.Count(p.stderr.String(), "run succeeded"); n != 4 {
		t.Errorf("the instance that leads has carried out %d runs, want 2 at its start and 2 for once-mode", n)
	}

	// Without the instance's other tasks these would count as removed if the instance ended now.
	head, _, _ := strings.Cut(s.read("tasks.hcl"), "\ntask {")
	part := s.write("part.hcl", head+lb)
	once(exitConfig, part, "also has second", "-store", "Task lb was not run")
	if configured() {
		t.Fatal("a second store was made for the same tasks")
	}

	// Another configuration may share the working_dir.
	other := s.write("other.hcl", head+s.task("elsewhere", onWeb))
	r = s.run("-once", "-config-file", other) // with -store=sqlite:state.db
	wantCode(t, r, exitError)
	wantText(t, unwrapped(r.stderr), "Task elsewhere was not run", "a task with name 'elsewhere' does not exist")
	once(exitOK, other, "has other tasks")
	if !configured() {
		t.Error("the tasks of another configuration are not in the store that it configures")
	}

	// What people have stopped counts while the instance is stopped, too.
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	wantCode(t, s.bare("hold", "-config-file", file, "lb"), exitOK)
	s.write("lb.txt", "changed by hand")
	wantText(t, once(exitWaits, file).stdout, "lb", "stopped", "second", "succeeded")
	if got := s.read("lb.txt"); got != "changed by hand" {
		t.Errorf("the task on hold was applied: %q", got)
	}

	// A start in the configured store says what it leaves behind.
	next := s.startBare("-config-file", file)
	eventually(t, "it leads", func() bool { return strings.Contains(next.stderr.String(), "msg=leading") })
	wantText(t, next.stderr.String(), "used another store", s.path("state.db"))
	next.stop()
}

func TestOnce_UsesTheConfiguredStoreIfThatOfTheLatestInstanceIsGone(t *testing.T) {
	s := newSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	s.write("work/terrapulse.store", "sqlite:"+s.path("gone/state.db")+"\n")
	r := s.bare("start", "-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantText(t, r.stderr, "is gone", s.path("gone/state.db"), s.path("work/terrapulse.db"))

	// What cannot be read is perhaps in use.
	broken := s.write("broken.db", "this is no database")
	s.write("work/terrapulse.store", "sqlite:"+broken+"\n")
	r = s.bare("start", "-once", "-config-file", file)
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, broken, "choose the store with -store")
	wantCode(t, s.bare("start", "-once", "-config-file", file, "-store=sqlite:"+s.path("chosen.db")), exitOK)
}
