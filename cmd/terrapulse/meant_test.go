package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Who misspells a name is told the right one, as a command that can be copied.
func TestMeant_UnknownNamesAreCorrected(t *testing.T) {
	for line, want := range map[string]string{
		"plan fw":                           "did you mean `terrapulse plan show fw`?",
		"plan shwo fw":                      "did you mean `terrapulse plan show fw`?",
		"enable web":                        "did you mean `terrapulse task enable",
		"aprove web":                        "did you mean `terrapulse approve",
		"status -htp-addr=http://127.0.0.1": "flag provided but not defined: -htp-addr; did you mean -http-addr?",
		"bundle frobnicate":                 "`terrapulse bundle -help` lists the commands",
	} {
		var out testtools.Output
		a := &app{ctx: t.Context(), program: ownName, stdin: strings.NewReader(""), stdout: &out, stderr: &out}
		if code := a.run(strings.Fields(line)); code == exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %s\nwant %s", line, code, out.String(), want)
		}
	}
}

func TestMeant_UnknownTasksAndLabelsOfAnInstanceAreCorrected(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("firewall", onWeb+"labels = { site = \"muc\" }\n"))
	p := s.start("-config-file", file)
	s.awaitPhase("firewall", apispec.PhaseApplied, "")
	at := "-http-addr=" + p.served()
	for _, args := range [][]string{{"approve", at, "firewal"}, {"hold", at, "firewal"}, {"run", at, "firewal"}, {"runs", at, "firewal"}, {"logs", at, "firewal"}, {"inspect", "-config-file", file, "firewal"}} {
		r := s.bare(args[0], args[1:]...)
		if r.code == exitOK {
			t.Errorf("%q succeeds", args)
		}
		wantText(t, unwrapped(r.stderr), "did you mean firewall?")
	}
	wantText(t, s.bare("status", at, "-label=stie=muc").stdout, "no task has the label stie=muc; did you mean site=muc?")
	wantText(t, s.bare("approve", at, "-label=site=mcu").stderr, "no task has the label site=mcu; did you mean site=muc?")
	for line, want := range map[string]string{"status -label ": "site=muc", "approve -label s": "site=muc", "events -task f": "firewall", "status -name f": "firewall"} {
		line = "terrapulse " + strings.Replace(line, " ", " "+strings.Replace(at, "=", " ", 1)+" ", 1)
		if got := completions(t, s.dir, s.env, line); strings.Join(got, " ") != want {
			t.Errorf("after %q a shell shows %q", line, got)
		}
	}
}

// A command that is printed acts where the command acts that printed it.
func TestPlace_PrintedCommandsCarryTheFlagsThatTheyNeed(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", "approval = \"always\"\n"+onWeb))
	p := s.start("-config-file", file)
	s.awaitPhase("lb", apispec.PhaseWaiting, "")
	at := "-http-addr=" + p.served()
	wantText(t, s.bare("status", at).stdout, "`terrapulse plan show "+at+" lb`", "`terrapulse approve "+at+" -plan=")
	wantText(t, s.bare("plan", "show", at, "lb").stdout, "To approve it: `terrapulse approve "+at+" -plan=")
	wantText(t, s.bare("hold", "-config-file", file, "lb").stdout, "`terrapulse release -config-file="+file+" lb`")
	wantText(t, s.bare("runs", at, "nope").stderr, "`terrapulse status "+at+"` lists")
	if r := s.bare("status", at, "-json"); strings.Contains(r.stdout, "plan show "+at) {
		t.Errorf("-json has flags of this command line:\n%s", r.stdout)
	}
	if r := s.bare("approve", at, "-token=top-secret", "nope"); strings.Contains(r.stdout+r.stderr, "top-secret") {
		t.Errorf("the token is printed:\n%s%s", r.stdout, r.stderr)
	}
	a := &app{given: []givenFlag{{"config-file", "my tasks/it's.yaml"}}}
	a.factories()
	if got, want := string(a.here([]byte("see `terrapulse status`, `terrapulse version` and `terrapulse status -help`"))), `see `+"`terrapulse status -config-file='my tasks/it'\\''s.yaml'`, `terrapulse version` and `terrapulse status -help`"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestAutocomplete_IsInstalledForWhoHasThisHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	fish := filepath.Join(home, ".config", "fish")
	if err := os.MkdirAll(fish, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".bashrc", ".zshrc"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte("alias ll='ls -l'"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	does := func(flag string, want ...string) {
		t.Helper()
		var out testtools.Output
		a := &app{ctx: t.Context(), program: ownName, stdin: strings.NewReader(""), stdout: &out, stderr: &out}
		if code := a.run([]string{flag}); code != exitOK {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
		wantText(t, out.String(), want...)
	}
	read := func(name string) string { raw, _ := os.ReadFile(filepath.Join(home, name)); return string(raw) }
	bash, script := filepath.Join(home, ".bashrc"), filepath.Join(fish, "completions", "terrapulse.fish")
	does("-autocomplete-install", "Commands are completed by "+bash+": open a new shell", script)
	does("-autocomplete-install", "Commands are completed by "+bash+" already")
	if got := read(".bashrc"); strings.Count(got, "complete -C ") != 1 || !strings.HasPrefix(got, "alias ll='ls -l'\n") {
		t.Errorf("bash has %q", got)
	}
	wantText(t, read(".zshrc"), "bashcompinit\ncomplete -o nospace -C ")
	wantText(t, read(".config/fish/completions/terrapulse.fish"), "complete -f -c terrapulse")
	does("-autocomplete-uninstall", "Took the completion of commands out of "+bash)
	if got := read(".bashrc") + read(".zshrc") + read(".config/fish/completions/terrapulse.fish"); strings.Contains(got, "complete -") {
		t.Errorf("after it is uninstalled there is %q", got)
	}
	does("-autocomplete-uninstall", "Nothing of completion is in "+bash)
}
