package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestDaemonImage_AppliesTasksInAReadOnlyContainer(t *testing.T) {
	slow(t)
	name := rehearsal.Image(t, "daemon")
	consul := consultest.Start(t)
	if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: 8080}); err != nil {
		t.Fatal(err)
	}
	tasks, state := t.TempDir(), t.TempDir()
	if err := os.CopyFS(tasks, os.DirFS(filepath.Join(testtools.Root(t), "examples", "quickstart"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(tasks, "tasks.yaml"))
	if err == nil { // a module's path is relative to the working directory
		text = []byte(strings.ReplaceAll(string(text), "module: ./", "module: /etc/terrapulse/tasks/"))
		err = os.WriteFile(filepath.Join(tasks, "tasks.yaml"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{tasks, state} {
		if err := exec.Command("chmod", "-R", "a+rwX", dir).Run(); err != nil {
			t.Fatal(err)
		}
	}
	in := func(args ...string) (string, error) {
		out, err := podman(t, append([]string{"run", "--rm", "--read-only", "--passwd=false", "--network", "host", "--cap-drop", "all",
			"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--env", "CONSUL_HTTP_ADDR=" + consul.Addr(),
			"--volume", tasks + ":/etc/terrapulse/tasks:ro", "--volume", state + ":/var/lib/terrapulse", name}, args...)...)
		return string(out), err
	}
	if out, err := in("version"); err != nil || !strings.Contains(out, "terrapulse") {
		t.Errorf("version: %v\n%s", err, out)
	}
	out, err := in("start", "-once", "-config-dir", "/etc/terrapulse/tasks")
	if err != nil || !strings.Contains(out, "2 tasks in ") || !strings.Contains(out, "2 succeeded") {
		t.Errorf("start -once: %v\n%s", err, out)
	}
	if out, err := in("status"); err != nil || !strings.Contains(out, "load-balancer") || !strings.Contains(out, "applied") {
		t.Errorf("the store is not in the volume: %v\n%s", err, out)
	}
	if out, err := podman(t, "image", "inspect", "--format", "{{.Config.User}} {{.Config.Cmd}}", name); err != nil || !strings.HasPrefix(string(out), "65532:65532 [start -config-dir") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCompose_NamesWhatTheImageHas(t *testing.T) {
	text, err := os.ReadFile("daemon/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image   string
			Volumes []string
			Health  struct{ Test []string } `yaml:"healthcheck"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile("runner/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	daemon, ok := compose.Services["terrapulse"]
	if !ok || !strings.Contains(daemon.Image, "terrapulse-daemon:") {
		t.Fatalf("%+v", compose)
	}
	for _, volume := range daemon.Volumes {
		if path := "/" + strings.SplitN(volume, ":/", 2)[1]; !strings.Contains(string(image), strings.TrimSuffix(path, ":ro")) {
			t.Errorf("the image has no %s", path)
		}
	}
	if _, ok := compose.Volumes["state"]; !ok || len(daemon.Volumes) != 2 || len(daemon.Health.Test) == 0 {
		t.Errorf("%+v", compose)
	}
}

func TestUnit_IsValidAndHardened(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze")
	}
	text, err := os.ReadFile("daemon/terrapulse.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // verify needs an existing program
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "terrapulse.service")
	text = []byte(strings.ReplaceAll(string(text), "/usr/bin/terrapulse", program))
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The scale is from 0 to 10 (here 10 to 100): below 2 is well protected.
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
