package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// clusterStore is the store of the clusters of these tests.
const clusterStore = "consul:consul-terraform-sync/network"

// member is one instance of a cluster in a test.
type member struct {
	*process
	id   string
	port int
}

// ensemble is a cluster of instances, each with a Consul server of its own.
type ensemble struct {
	*site
	servers  []*consultest.Server
	session  time.Duration
	parallel int    // of each instance; 0 is the default
	backend  string // of Terraform; "" is Consul's KV store
	program  string // "" is the test itself
}

func newEnsemble(t testing.TB, session time.Duration, servers ...*consultest.Server) *ensemble {
	t.Helper()
	env := append(terraformEnv(t), "CONSUL_HTTP_ADDR="+servers[0].Addr()) // for commands that read the store
	return &ensemble{site: &site{t: t, dir: testtools.Folder(t), consul: servers[0], env: env}, servers: servers, session: session}
}

// instance starts instance number n, from 1, with these tasks.
func (e *ensemble) instance(n int, tasks string) *member {
	e.t.Helper()
	id := fmt.Sprintf("cts-%02d", n)
	port := testtools.FreePort(e.t)
	backend := cmp.Or(e.backend, fmt.Sprintf(`backend "consul" {
    address = %q
    path = "states"
  }`, e.servers[1%len(e.servers)].Addr()))
	file := e.write(id+"/tasks.hcl", fmt.Sprintf(`
id   = %q
port = %d
consul {
  address = %q
}
driver "terraform" {
  %s
}
buffer_period {
  enabled = false
}
high_availability {
  cluster {
    name = "network"
    storage "consul" {
      session_ttl = %q
    }
  }
  instance {
    address = "%s.example.com"
  }
}
`, id, port, e.servers[(n-1)%len(e.servers)].Addr(), backend, e.session, id)+tasks)
	own := &site{t: e.t, dir: e.path(id), env: e.env}
	args := []string{"-config-file", file}
	if e.parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(e.parallel))
	}
	return &member{own.startProgram(cmp.Or(e.program, os.Args[0]), args...), id, port}
}

type clusterStatus struct {
	Name    string `json:"cluster_name"`
	Members []struct {
		ID      string
		Address string
		Healthy bool
		Leader  bool
	}
}

// status asks the instance for the cluster's.
func (m *member) status() (s clusterStatus) {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/status/cluster", m.port))
	if err != nil {
		return s
	}
	defer resp.Body.Close()
	if json.NewDecoder(resp.Body).Decode(&s) != nil {
		return clusterStatus{}
	}
	return s
}

// sees reports whether the instance tells of as many healthy ones, and of this leader.
func (m *member) sees(healthy int, leader string) bool {
	s, n, led := m.status(), 0, ""
	for _, one := range s.Members {
		if one.Healthy {
			n++
		}
		if one.Leader {
			led = one.ID
		}
	}
	return s.Name == "network" && n == healthy && led == leader
}

// leads reports whether the instance has said last that it leads.
func (m *member) leads() bool {
	return strings.Contains(m.stderr.String(), "acquired leadership lock: id="+m.id)
}

func (e *ensemble) publish(server *consultest.Server, id string, port int) {
	e.t.Helper()
	_, err := server.Client().Catalog().Register(&api.CatalogRegistration{Node: "worker", Address: "10.0.0.1",
		Service: &api.AgentService{ID: id, Service: "web", Port: port}}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
}

func TestAClusterGoesOnWhenItsLeaderIsKilledInTheMidstOfAnApply(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	t.Parallel()
	const session = 10 * time.Second
	e := newEnsemble(t, session, consultest.StartCluster(t)...)
	task := e.heldTask("t0")
	e.publish(e.servers[0], "web-1", 8080)

	first := e.instance(1, task)
	eventually(t, "the first instance leads", first.leads)
	eventually(t, "the first apply", func() bool { return e.read("t0.out") == "web:8080\n" })
	others := []*member{e.instance(2, task), e.instance(3, task)}
	for _, m := range append(others, first) {
		eventually(t, m.id+" sees three instances", func() bool { return m.sees(3, "cts-01") })
	}
	if s := others[0].status(); s.Members[0].Address != "cts-01.example.com" {
		t.Errorf("the leader's address: %+v", s)
	}

	// In the midst of an apply the leader is killed, and what is changed then
	// must not be lost.
	e.write("hold", "")
	e.publish(e.servers[1], "web-2", 8081)
	eventually(t, "the second apply has begun", func() bool { return strings.Count(e.read("log"), "t0 ") == 2 })
	first.Process.Signal(syscall.SIGKILL)
	killed := time.Now()
	<-first.ended
	e.publish(e.servers[1], "web-3", 8082)
	e.remove("hold")
	var next *member
	eventually(t, "another instance leads", func() bool {
		i := slices.IndexFunc(others, (*member).leads)
		if i >= 0 {
			next = others[i]
		}
		return i >= 0
	})
	t.Logf("taken over after %s", time.Since(killed))
	eventually(t, "the change is applied", func() bool { return e.read("t0.out") == "web:8080 web:8081 web:8082\n" })
	t.Logf("all was applied after %s", time.Since(killed))
	if log := e.read("log"); strings.Contains(log, "overlap") {
		t.Errorf("two runs of one task at once:\n%s", log)
	}
	for _, m := range others {
		eventually(t, m.id+" sees who leads and who has died", func() bool { return m.sees(2, next.id) })
	}
	r := e.run("runs", "-store", clusterStore, "t0")
	wantText(t, r.stdout, "lost")

	// One that comes back follows.
	back := e.instance(1, task)
	eventually(t, "it is one of three again", func() bool { return back.sees(3, next.id) })
	e.publish(e.servers[2], "web-4", 8083)
	eventually(t, "changes are followed", func() bool { return strings.Contains(e.read("t0.out"), "web:8083") })
	for _, m := range []*member{back, others[0], others[1]} {
		if code := m.stop(); code != exitOK {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}

// call asks the instance's API and returns the status code and the answer.
func (m *member) call(method, path, body string) (int, string) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", m.port, path), strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// newModule makes the module of the site's tasks: one that needs no provider
// and writes the ports of its services to a file.
func newModule(s *site) {
	s.write("mod/main.tf", `
variable "services" {
  type = any
}
variable "file" {
  type = string
}
resource "terraform_data" "out" {
  triggers_replace = join("", [for s in var.services : "${s.port} "])
  input = var.file
  provisioner "local-exec" {
    command = "echo '${self.triggers_replace}' > ${self.input}"
  }
}
`)
}

// A configuration is changed on one instance after the other, the leader last,
// as CTS's documentation says.
func TestAClustersConfigurationIsChangedOneInstanceAfterTheOther(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	newModule(e.site)
	e.publish(e.servers[0], "web-1", 8080)
	// The first instance alone has the module of the task far.
	e.write("cts-01/modules/far/main.tf", e.read("mod/main.tf"))
	before := e.task("lb", onWeb) + strings.ReplaceAll(e.task("far", onWeb), fmt.Sprintf("module = %q", e.path("mod")), `module = "./modules/far"`)
	after := before + e.task("fw", onWeb)

	one := e.instance(1, before)
	eventually(t, "the first instance leads", one.leads)
	two, three := e.instance(2, before), e.instance(3, before)
	eventually(t, "there are three", func() bool { return one.sees(3, "cts-01") })
	eventually(t, "the tasks are applied", func() bool {
		return strings.Contains(e.read("lb.txt"), "8080") && strings.Contains(e.read("far.txt"), "8080")
	})
	eventually(t, "an instance says which module it lacks", func() bool {
		return strings.Contains(two.stderr.String(), "compatibility check failure: stat "+e.path("cts-02/modules/far")+": no such file or directory")
	})

	// What people change goes to the leader, whomever they ask.
	enable := func(m *member, enabled bool) {
		t.Helper()
		eventually(t, "the follower changes it, when no run is under way", func() bool {
			code, _ := m.call("PATCH", "/v1/tasks/lb", fmt.Sprintf(`{"enabled": %t}`, enabled))
			return code == http.StatusOK
		})
	}
	enable(two, false)
	eventually(t, "the leader has it", func() bool {
		_, text := one.call("GET", "/v1/status/tasks/lb", "")
		return strings.Contains(text, `"enabled":false`) || strings.Contains(text, `"enabled": false`)
	})
	e.publish(e.servers[0], "web-2", 8081)
	eventually(t, "an instance that has its module applies it", func() bool { return strings.Contains(e.read("far.txt"), "8081") })

	for n, m := range map[int]*member{2: two, 3: three} {
		if code := m.stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		eventually(t, "it is not counted any more", func() bool { return one.sees(2, "cts-01") })
		m = e.instance(n, after)
		eventually(t, "it is back", func() bool { return one.sees(3, "cts-01") })
		eventually(t, "it says that it differs", func() bool {
			return strings.Contains(m.stderr.String(), "the files of this instance differ from those of cts-01")
		})
		if n == 2 {
			two = m
		} else {
			three = m
		}
	}
	if e.read("fw.txt") != "" {
		t.Error("a follower's configuration is in force")
	}
	if code := one.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "a follower leads at once, with the new configuration", func() bool { return strings.Contains(e.read("fw.txt"), "8081") })
	e.publish(e.servers[0], "web-3", 8082)
	eventually(t, "what can be run is run", func() bool { return strings.Contains(e.read("fw.txt"), "8082") })
	wantText(t, unwrapped(e.run("status", "-store", clusterStore).stdout), "it cannot be run on the instance that leads: compatibility check failure")
	if strings.Contains(e.read("far.txt"), "8082") || strings.Contains(e.run("runs", "-store", clusterStore, "far").stdout, "failed") {
		t.Error("a task was run whose module is missing")
	}
	one = e.instance(1, after)
	var leader string
	for _, m := range []*member{two, three} {
		if m.leads() {
			leader = m.id
		}
	}
	eventually(t, "there are three again", func() bool { return one.sees(3, leader) })
	if log := one.stderr.String(); strings.Contains(log, "compatibility check failure") {
		t.Errorf("in the end all have the same configuration:\n%s", log)
	}
	// What was changed by people outlasts that.
	if strings.Contains(e.read("lb.txt"), "8081") {
		t.Error("a task that was disabled has run")
	}
	enable(one, true)
	// A follower, too, serves people who hold a task.
	follower := two
	if two.id == leader {
		follower = three
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/v1/tasks/lb/hold", `{"by": "jo"}`, 200, ""},
		{"POST", "/v1/tasks/lb/run?wait=true", "", 409, "on hold by jo"},
		{"POST", "/v1/tasks/lb/approval", `{"decision": "approve", "plan": "00000000"}`, 404, "no plan of task 'lb' waits"},
		{"DELETE", "/v1/tasks/lb/hold", "", 200, ""},
		{"DELETE", "/v1/tasks/lb/hold", "", 409, "not on hold"},
		{"POST", "/v1/pause", `{"by": "jo", "reason": "maintenance"}`, 200, "maintenance"},
		{"POST", "/v1/tasks/lb/run?wait=true", "", 409, "paused by jo"},
		{"POST", "/v1/resume", `{"by": "jo"}`, 200, "maintenance"},
	} {
		if code, text := follower.call(c.method, c.path, c.body); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("a follower answers %s %s with %d %s", c.method, c.path, code, text)
		}
	}
	if code, text := three.call("POST", "/v1/tasks/lb/run", ""); code >= 300 {
		t.Fatalf("an instance answers %d %s", code, text)
	}
	eventually(t, "enabled and run, it catches up", func() bool { return strings.Contains(e.read("lb.txt"), "8081") })
}

// The instance whose Consul is gone has to let another lead.
func TestAClusterOutlivesTheLossOfAConsulServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	t.Parallel()
	servers := consultest.StartCluster(t)
	// The instance that leads is not at the server that leads.
	for !servers[2].Leads() {
		servers = append(servers[1:], servers[0])
	}
	e := newEnsemble(t, 10*time.Second, servers...)
	newModule(e.site)
	e.publish(servers[1], "web-1", 8080)
	task := e.task("lb", onWeb)
	one := e.instance(1, task)
	eventually(t, "the first apply", func() bool { return one.leads() && strings.Contains(e.read("lb.txt"), "8080") })
	two := e.instance(2, task)
	eventually(t, "there are two", func() bool { return two.sees(2, "cts-01") })

	servers[0].Stop()
	eventually(t, "another instance leads", two.leads)
	e.publish(servers[1], "web-2", 8081)
	eventually(t, "a change is applied", func() bool { return strings.Contains(e.read("lb.txt"), "8081") })
	eventually(t, "the one that has no Consul knows that it leads no more", func() bool { return strings.Contains(one.stderr.String(), "no longer leading") })
	servers[0].Restart()
	eventually(t, "with its Consul it is one of two again", func() bool { return one.sees(2, "cts-02") })
}
