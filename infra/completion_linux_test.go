package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestCompletion_EachShellAsksTheProgram completes a line in the real shells, as far as they are
// installed, with the files that packages install.
func TestCompletion_EachShellAsksTheProgram(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "terrapulse")
	if err := testtools.Build(program, "cmd/terrapulse"); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(testtools.Root(t), "infra/daemon/package/completion", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/bin/terrapulse", program)), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	zsh := file("_terrapulse")
	for shell, script := range map[string]string{
		"bash": "source " + file("terrapulse.bash") + "; complete -p terrapulse | grep -q nospace; COMP_LINE='terrapulse task d' COMP_POINT=17 " + program,
		"fish": "source " + file("terrapulse.fish") + "; complete -C 'terrapulse task d'",
		// A terminal of its own, in which Tab is pressed.
		"zsh": `zmodload zsh/zpty
zpty shell 'PS1="> " TERM=dumb zsh -f -i'
zpty -w shell 'fpath=(` + filepath.Dir(zsh) + ` $fpath); autoload -Uz compinit; compinit -u -D; setopt nobeep listambiguous; bindkey "^I" complete-word; print rea""dy'
zpty -r -m shell line '*ready*'
zpty -w -n shell $'terrapulse task d\t\t'
for i in {1..300}; do zpty -r -t shell line && print -n -- "$line" && all+=$line; [[ $all == *disable* ]] && break; sleep 0.1; done
zpty -d shell`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(shell, " is not installed")
			}
			args := []string{"-c", script}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env, cmd.WaitDelay = append(os.Environ(), "HOME="+dir), time.Second
			out, err := cmd.CombinedOutput()
			for _, want := range []string{"delete", "disable"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v, and it offers no %s:\n%s", err, want, out)
				}
			}
			if strings.Contains(string(out), "create") {
				t.Errorf("it offers what does not begin with d:\n%s", out)
			}
		})
	}
}

func TestCompletion_PackagesInstallItForEachShell(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Nfpms []struct {
			Contents []struct{ Src, Dst, Packager string }
		}
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, c := range release.Nfpms[0].Contents {
		if !strings.Contains(c.Src, "/completion/") {
			continue
		}
		if _, err := os.Stat(filepath.Join(testtools.Root(t), c.Src)); err != nil {
			t.Error(err)
		}
		for _, packager := range []string{"deb", "rpm"} {
			if c.Packager == "" || c.Packager == packager {
				found[packager]++
			}
		}
	}
	if found["deb"] != 3 || found["rpm"] != 3 {
		t.Errorf("files for shells in each package: %v, want 3", found)
	}
}
