package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// examined runs doctor and returns its checks by name.
func (s *site) examined(code int, args ...string) map[string]invoke.Check {
	s.t.Helper()
	r := s.run(append([]string{"doctor", "-json"}, args...)...)
	wantCode(s.t, r, code)
	var all []invoke.Check
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		s.t.Fatalf("%v:\n%s", err, r.stdout)
	}
	checks := map[string]invoke.Check{}
	for _, c := range all {
		if _, twice := checks[c.Name]; twice || !c.OK && (c.Found == "" || c.Fix == "") || c.OK && c.Fix != "" {
			s.t.Errorf("check %+v", c)
		}
		checks[c.Name] = c
	}
	return checks
}

// finds fails unless a check has this state and says this.
func finds(t *testing.T, checks map[string]invoke.Check, name, state, text string) {
	t.Helper()
	c, ok := checks[name]
	is := map[bool]string{true: "ok", false: "wrong"}[c.OK]
	if c.Skipped {
		is = "skipped"
	}
	if !ok || is != state || !strings.Contains(c.Found, text) {
		t.Errorf("check %q is %s and says %q, want %s and %q", name, is, c.Found, state, text)
	}
}

// everything lists the files of a folder, with their times.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintln(&b, path, info.Mode(), info.ModTime(), info.Size())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDoctor_OfAMachineBeforeAndWhileTheInstanceRuns(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	s.write("port.yaml", fmt.Sprintf("port: %d\n", testtools.FreePort(t)))
	files := []string{"-config-file", file, "-config-file", s.path("port.yaml")}

	before := everything(t, s.dir)
	checks := s.examined(exitOK, files...)
	for name, text := range map[string]string{
		"task files": "1 task", "consul": "has a leader; version ", "clock": "the same as Consul's", "consul rights": "what the tasks read can be read", "consul writes": "nothing is written into Consul",
		"terraform": "erra", "providers": "hashicorp/local: Terraform gets them as TF_CLI_CONFIG_FILE says", "store": "is not there yet: start creates it", "instances": "none runs", "paused": "no",
		"tasks": "none has run yet", "disk": "free in ", "port": "is free",
	} {
		finds(t, checks, name, "ok", text)
	}
	finds(t, checks, "task files", "ok", `the loss of the last entry is applied without an approval (guard { on_empty = "hold" } holds it): lb`)
	if after := everything(t, s.dir); after != before {
		t.Errorf("doctor has changed files:\n%s\nbefore:\n%s", after, before)
	}

	p := s.startProgram(os.Args[0], append([]string{"start"}, files...)...)
	eventually(t, "the task is applied", func() bool {
		return strings.Contains(s.read("lb.txt"), "web") && strings.Contains(p.stderr.String(), "serving")
	})
	checks = s.examined(exitOK, files...) // it finds the store that the instance was started with
	for name, text := range map[string]string{
		"store": "can be read and written, 1 task", "instances": " leads on the store", "tasks": "1 ", "port": "an instance of Terrapulse serves",
	} {
		finds(t, checks, name, "ok", text)
	}
}

func TestDoctor_OfAMachineSaysWhatIsWrongAndHowToFixIt(t *testing.T) {
	s := newParallelSite(t, consultest.WithACLs())
	s.register("web", "web-1", 8080, "passing")
	other, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	file := s.config(s.task("lb", onWeb))
	s.write("port.yaml", fmt.Sprintf("port: %d\nconsul: {service_registration: {enabled: true, service_name: net}}\n", port))
	s.write("work/terrapulse.db", "this is no store, and long enough to be read as one\n"+strings.Repeat("x", 4096))
	files := []string{"-config-file", file, "-config-file", s.path("port.yaml")}

	s.env = append(s.env, "TF_CLI_CONFIG_FILE=terraform.rc", "CONSUL_HTTP_TOKEN="+s.token("narrow", `service "api" { policy = "read" }`))
	for i, v := range s.env {
		if strings.HasPrefix(v, "PATH=") {
			s.env[i] = "PATH=" + t.TempDir()
		}
	}
	checks := s.examined(exitError, files...)
	for name, text := range map[string]string{
		"consul rights": `service:read on "web"`, "consul writes": `service:write on "net"`, "terraform": "no Terraform", "store": "terrapulse.db", "port": "another program has port",
		"providers": "hashicorp/local: there is no file terraform.rc in " + s.path("work/lb") + ", where Terraform searches what TF_CLI_CONFIG_FILE names",
	} {
		finds(t, checks, name, "wrong", text)
	}
	finds(t, checks, "instances", "skipped", "the store cannot be read")
	r := s.run(append([]string{"doctor"}, files...)...)
	wantCode(t, r, exitError)
	wantText(t, r.stdout, "CHECK", "STATE", "FOUND", "consul rights", "wrong")
	wantText(t, r.stderr, "To fix it: give the token", "To fix it: install Terraform")

	s.consul.Stop()
	checks = s.examined(exitError, files...)
	finds(t, checks, "consul", "wrong", s.consul.Addr())
	for _, name := range []string{"clock", "consul rights", "consul writes"} {
		finds(t, checks, name, "skipped", "Consul does not answer")
	}

	for approval, wrong := range map[string]string{
		`from = ["group:nobody"]`:                     `there is no group "nobody"`,
		"require = 3\n    from = [\"group:network\"]": "3 different people must approve, and from names 2",
	} {
		impossible := s.write("impossible.hcl", "api {\n  access {\n    group \"network\" {\n      members = [\"token:ann\", \"token:bob\"]\n    }\n    grant {\n      roles = [\"administer\"]\n      to    = [\"group:network\"]\n    }\n  }\n}\napproval {\n  mode = \"always\"\n  "+approval+"\n}\n")
		finds(t, s.examined(exitError, append(files, "-config-file", impossible)...), "task files", "wrong", wrong)
	}

	s.write("port.yaml", "prot: 1\n")
	checks = s.examined(exitError, files...)
	finds(t, checks, "task files", "wrong", "prot")
	if len(checks) != 1 {
		t.Errorf("with wrong task files, it also checks %v", checks)
	}
}

func TestDoctor_OfAClusterShowsItsInstances(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb) + `
high_availability {
  cluster {
    name = "net"
    storage "consul" {
      session_ttl = "10s"
    }
  }
}
`)
	s.startProgram(os.Args[0], "start", "-config-file", file)
	eventually(t, "the task is applied", func() bool { return strings.Contains(s.read("lb.txt"), "web") })
	checks := s.examined(exitOK, "-config-file", file)
	finds(t, checks, "store", "ok", "consul:consul-terraform-sync/net can be read, 1 task")
	finds(t, checks, "instances", "ok", " leads")
	finds(t, checks, "consul writes", "ok", "the cluster's state can be written")
}
