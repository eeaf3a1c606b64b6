package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
)

func TestOnce_ModuleThatDeclaresPortsGetsThem(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("a module is fetched with git: ", err)
	}
	s := newParallelSite(t)
	if !s.consul.AtLeast("1.22") {
		t.Skip("this Consul refuses a service with several ports")
	}
	err = s.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1",
		Ports: api.ServicePorts{{Name: "http", Port: 8080}, {Name: "grpc", Port: 9090, Default: true}}})
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(s.read("mod/main.tf"), "port = number,", "port = number, ports = map(number),", 1)
	module = strings.Replace(module, "${s.port}", "${s.port} ${jsonencode(s.ports)}", 1)
	s.write("local/main.tf", module)
	s.write("fetched/main.tf", module)
	for _, args := range [][]string{{"init", "-q"}, {"add", "main.tf"},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "Add a module"}} {
		cmd := exec.Command(git, args...)
		cmd.Dir = s.path("fetched")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	task := func(name, module string) string {
		return strings.Replace(s.task(name, onWeb), `"`+s.path("mod")+`"`, `"`+module+`"`, 1)
	}
	file := s.config(task("plain", s.path("mod")) + task("local", s.path("local")) + task("fetched", "git::file://"+s.path("fetched")))
	wantCode(t, s.run("validate", "-config-file", file), exitOK)
	wantCode(t, s.run("start", "-inspect", "-config-file", file), exitOK)
	wantCode(t, s.run("start", "-once", "-config-file", file), exitOK)
	for name, want := range map[string]string{
		"plain":   "web 10.0.0.1:9090 passing\n",
		"local":   `web 10.0.0.1:9090 {"grpc":9090,"http":8080} passing` + "\n",
		"fetched": `web 10.0.0.1:9090 {"grpc":9090,"http":8080} passing` + "\n",
	} {
		if got := s.read(name + ".txt"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if text := s.read("work/plain/terraform.tfvars") + s.read("work/plain/variables.tf"); strings.Contains(text, "ports") {
		t.Errorf("a module that declares no ports is given them:\n%s", text)
	}
}
