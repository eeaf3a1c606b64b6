package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/process/cluster"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// fixture is shared by the instances of a test.
type fixture struct {
	t     *testing.T
	store state.Store
	mu    sync.Mutex
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	return &fixture{t: t, store: store, now: time.Now()}
}

func (r *fixture) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *fixture) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// instance is an instance with its log.
type instance struct {
	*cluster.Member
	opts cluster.Options
	log  *logged
}

type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

// take returns what was logged since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.Reset()
	return l.String()
}

func (r *fixture) join(id string, change func(*cluster.Options)) *instance {
	r.t.Helper()
	log := &logged{}
	cfg := &config.Config{}
	opts := cluster.Options{
		Instance: cluster.Instance{Cluster: "a", ID: id, Service: "consul-terraform-sync", Owner: "owner-" + id + "-" + r.clock().String(),
			Lease: "reconcile", Terraform: "terraform 1.11.4"},
		Store: r.store, SessionTTL: 10 * time.Second, Now: r.clock, Log: slog.New(slog.NewTextHandler(log, nil)),
		Base:      func() *config.Config { return cfg },
		Effective: func(context.Context) (*config.Config, error) { return cfg, nil },
	}
	if change != nil {
		change(&opts)
	}
	m := cluster.New(opts)
	m.Join(r.t.Context())
	return &instance{m, opts, log}
}

// leads makes the instance take the lease.
func (r *fixture) leads(i *instance) *lease.Lease {
	r.t.Helper()
	held, err := lease.Acquire(r.t.Context(), r.store, "reconcile", i.opts.Owner, lease.Options{TTL: 15 * time.Second, Now: r.clock})
	if err != nil {
		r.t.Fatal(err)
	}
	i.Leads(r.t.Context(), held.Fence())
	return held
}

// run runs the member until stop is called.
func (i *instance) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { i.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// shows expects this answer of GET /v1/status/cluster, without times and versions.
func (i *instance) shows(t *testing.T, want string) {
	t.Helper()
	status, err := i.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range status.Members {
		m := &status.Members[n]
		m.Since, m.Seen, m.Terraform, m.Version = nil, nil, nil, nil
	}
	got, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = strings.TrimSuffix(strings.TrimSpace(want), "}") + `,"request_id":""}` // the API sets the id
	var expected bytes.Buffer
	if err := json.Indent(&expected, []byte(want), "", "  "); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected.String(), string(got)); diff != "" {
		t.Errorf("the cluster (-want +got):\n%s", diff)
	}
}

// TestStatus_KilledInstanceDoesNotStandBy checks each session_ttl that the documentation names.
func TestStatus_KilledInstanceDoesNotStandBy(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 15 * time.Second, time.Minute, 24 * time.Hour} {
		r := newFixture(t)
		with := func(o *cluster.Options) { o.SessionTTL = ttl }
		r.join("cts-02", with) // and killed
		r.pass(23 * time.Second)
		status, err := r.join("cts-01", with).Status(t.Context())
		if err != nil || len(status.Members) != 2 || *status.Members[1].State != apispec.MemberStateSilent || status.Members[1].Healthy {
			t.Errorf("session_ttl %s: %+v, %v", ttl, status.Members, err)
		}
	}
}

func says(t *testing.T, log string, what ...string) {
	t.Helper()
	for _, w := range what {
		if !strings.Contains(log, w) {
			t.Errorf("the log does not say %q:\n%s", w, log)
		}
	}
}

func quiet(t *testing.T, log string) {
	t.Helper()
	if strings.Contains(log, "WARN") || strings.Contains(log, "ERROR") {
		t.Errorf("the log says:\n%s", log)
	}
}

func TestStatus_ListsInstancesAndTheLeader(t *testing.T) {
	r := newFixture(t)
	one := r.join("cts-01", nil)
	one.shows(t, `{"cluster_name":"a","members":[{"healthy":true,"id":"cts-01","leader":false,"service_name":"consul-terraform-sync","state":"stands_by"}]}`)
	two := r.join("cts-02", func(o *cluster.Options) { o.Address = "cts-02.example.com" })
	three := r.join("cts 03/x", func(o *cluster.Options) { o.Service = "other" })
	held := r.leads(two)
	says(t, two.log.take(), "acquired leadership lock: id=cts-02")
	const all = `{"cluster_name":"a","members":[
		{"address":"cts-02.example.com","healthy":true,"id":"cts-02","leader":true,"service_name":"consul-terraform-sync","state":"leads"},
		{"healthy":true,"id":"cts 03/x","leader":false,"service_name":"other","state":"stands_by"},
		{"healthy":true,"id":"cts-01","leader":false,"service_name":"consul-terraform-sync","state":"stands_by"}]}`
	for _, i := range []*instance{one, two, three} {
		i.shows(t, all)
	}

	// An instance that exits is no longer listed.
	stop := three.run(t)
	stop()
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.shows(t, `{"cluster_name":"a","members":[
		{"healthy":true,"id":"cts-01","leader":false,"service_name":"consul-terraform-sync","state":"stands_by"},
		{"address":"cts-02.example.com","healthy":true,"id":"cts-02","leader":false,"service_name":"consul-terraform-sync","state":"stands_by"}]}`)

	// A dead instance is listed as unhealthy for a while.
	r.pass(26 * time.Second)
	one = r.join("cts-01", nil) // it was restarted
	const died = `{"cluster_name":"a","members":[
		{"healthy":true,"id":"cts-01","leader":false,"service_name":"consul-terraform-sync","state":"stands_by"},
		{"address":"cts-02.example.com","healthy":false,"id":"cts-02","leader":false,"service_name":"consul-terraform-sync","state":"silent"}]}`
	one.shows(t, died)
	r.pass(31 * time.Minute)
	one.shows(t, `{"cluster_name":"a","members":[]}`)
	for _, i := range []*instance{one, two, three} {
		quiet(t, i.log.take())
	}
}

func TestStatus_ShowsVersionsAndWhenAnInstanceReported(t *testing.T) {
	r := newFixture(t)
	one := r.join("cts-01", func(o *cluster.Options) { o.Version = "1.2.3" })
	began := r.clock()
	r.pass(time.Second)
	one.Join(t.Context())
	status, err := one.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := status.Members[0]
	if *m.Version != "1.2.3" || *m.Terraform != "terraform 1.11.4" || !m.Since.Equal(began) || !m.Seen.Equal(r.clock()) {
		t.Errorf("the instance is shown as %+v", m)
	}
}

func TestStatus_ShowsHowMuchRoomInstancesHave(t *testing.T) {
	r := newFixture(t)
	one := r.join("cts-01", nil)
	r.leads(one)
	r.join("cts-02", func(o *cluster.Options) {
		o.Base = func() *config.Config {
			return &config.Config{Consul: config.Consul{Namespace: "team"}, WorkingDir: "/elsewhere", Terraform: config.Terraform{Backend: config.Backend{Type: "consul"}}}
		}
	})
	r.join("cts-03", nil) // it is older and takes no launches
	for n, has := range []state.Runner{{ID: "cts-01", Definition: "same", Parallel: 4, Room: 4}, {ID: "cts-02", Definition: "other", Parallel: 8, Room: 0}} {
		if _, err := one.Store.Apply(t.Context(), state.Create(state.RunnerKey(has.ID), state.Encode(has))); err != nil {
			t.Fatal(n, err)
		}
	}
	status, err := one.Status(t.Context())
	if err != nil || len(status.Members) != 3 {
		t.Fatalf("%+v, %v", status, err)
	}
	leader, other, old := status.Members[0], status.Members[1], status.Members[2]
	if *leader.Room != 4 || *leader.Parallel != 4 || leader.Differs != nil {
		t.Errorf("the leader is shown as %+v", leader)
	}
	if *other.Room != 0 || *other.Parallel != 8 || other.Differs == nil || !slices.Equal(*other.Differs, []string{"consul.namespace"}) {
		t.Errorf("an instance with other files is shown as %+v", other)
	}
	if old.Room != nil || old.Parallel != nil || old.Differs != nil {
		t.Errorf("an instance that takes no launches is shown as %+v", old)
	}
}

func TestStatus_LiveInstanceStaysHealthy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of a few beats")
	}
	r := newFixture(t)
	one := r.join("cts-01", func(o *cluster.Options) { o.SessionTTL = 20 * time.Millisecond })
	stop := one.run(t)
	defer stop()
	r.pass(time.Hour)
	deadline := time.Now().Add(20 * time.Second)
	for {
		status, err := one.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(status.Members) == 1 && status.Members[0].Healthy {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after an hour: %+v", status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestJoin_ReportsADuplicateID(t *testing.T) {
	r := newFixture(t)
	first := r.join("cts-01", func(o *cluster.Options) { o.SessionTTL = 20 * time.Millisecond })
	r.pass(time.Second)
	second := r.join("cts-01", nil)
	quiet(t, second.log.take())
	stop := first.run(t)
	defer stop()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(first.log.take(), "give each an id of its own") {
		if time.Now().After(deadline) {
			t.Fatal("nothing is said")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// module creates the folder of a module, and returns a task that uses it.
func module(t *testing.T, dir, name string) config.Task {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return config.Task{Name: name, Module: path, Enabled: true}
}

func TestBlocked_OnlyTasksWhoseModuleIsMissing(t *testing.T) {
	r, dir := newFixture(t), t.TempDir()
	cfg := &config.Config{Tasks: []config.Task{module(t, dir, "web"), module(t, dir, "db"), {Name: "far", Module: "findkim/print/cts"}}}
	use := func(o *cluster.Options) {
		o.Effective = func(context.Context) (*config.Config, error) { return cfg, nil }
	}
	one := r.join("cts-01", use)
	quiet(t, one.log.take())
	if blocked := one.Blocked(); len(blocked) != 0 {
		t.Errorf("blocked: %v", blocked)
	}

	missing := cfg.Tasks[0].Module
	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	two := r.join("cts-02", use)
	says(t, two.log.take(), "compatibility check failure: stat "+missing+": no such file or directory", "task=web", "level=ERROR")
	if blocked := two.Blocked(); len(blocked) != 1 || !strings.Contains(blocked["web"].Error(), "compatibility check failure") {
		t.Errorf("blocked: %v", blocked)
	}
	if err := os.WriteFile(missing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.leads(two) // it checks again
	says(t, two.log.take(), "compatibility check failure: stat "+missing+": not a directory")

	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	module(t, dir, "web")
	r.leads(two)
	says(t, two.log.take(), "is no longer blocked", "task=web")
	if blocked := two.Blocked(); len(blocked) != 0 {
		t.Errorf("blocked: %v", blocked)
	}
}

func TestCheck_ReportsDifferencesFromTheLeader(t *testing.T) {
	r := newFixture(t)
	leader := r.join("cts-01", nil)
	r.leads(leader)
	quiet(t, leader.log.take())
	same := r.join("cts-02", nil)
	quiet(t, same.log.take())

	newer := r.join("cts-03", func(o *cluster.Options) { o.Terraform = "terraform 1.12.0" })
	says(t, newer.log.take(), "compatibility check failure: this instance runs terraform 1.12.0, and cts-01 runs terraform 1.11.4", "level=ERROR", "leader=cts-01")
	other := r.join("cts-04", func(o *cluster.Options) {
		o.Base = func() *config.Config { return &config.Config{Tasks: []config.Task{{Name: "web"}}} }
	})
	says(t, other.log.take(), "compatibility check failure: the files of this instance differ from those of cts-01, so it gets no runs: make these the same: ", "the tasks")
	for _, i := range []*instance{newer, other} {
		if blocked := i.Blocked(); len(blocked) != 0 {
			t.Errorf("blocked: %v", blocked)
		}
	}
	near := r.join("cts-05", func(o *cluster.Options) {
		o.Base = func() *config.Config { return &config.Config{Port: 1, Consul: config.Consul{Address: "10.0.0.5:8500"}} }
	})
	quiet(t, near.log.take())

	// Only followers report a difference: the leader uses its own files, even if they have changed
	// since it announced them.
	leader.opts.Base().Tasks = []config.Task{{Name: "db"}}
	r.leads(leader)
	quiet(t, leader.log.take())
}

func TestRun_ContinuesIfTheStoreFails(t *testing.T) {
	r := newFixture(t)
	store := r.store
	down := true
	r.store = &statetest.Faulty{Store: store, Before: func([]state.Change) error {
		if down {
			return context.DeadlineExceeded
		}
		return nil
	}}
	one := r.join("cts-01", func(o *cluster.Options) { o.SessionTTL = 20 * time.Millisecond })
	says(t, one.log.take(), "cannot announce this instance to the cluster", "deadline exceeded")
	one.shows(t, `{"cluster_name":"a","members":[]}`)
	down = false
	stop := one.run(t)
	defer stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if status, err := one.Status(t.Context()); err == nil && len(status.Members) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not tell")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// If a leader dies right after a renewal, or right before the next one, another instance takes over
// after one to two times session_ttl.
func TestTimingOf_TakeoverTakesOneToTwoSessions(t *testing.T) {
	for _, session := range []time.Duration{10 * time.Second, 15 * time.Second, 24 * time.Hour} {
		timing := cluster.TimingOf(session)
		renewal, poll := timing.LeaseTTL/3, timing.LeaseTTL/10
		if soonest := timing.LeaseTTL - renewal; soonest < session {
			t.Errorf("session_ttl %s: taken over %s after the leader's death", session, soonest)
		}
		if latest := timing.LeaseTTL + 2*poll; latest > 2*session*95/100 {
			t.Errorf("session_ttl %s: taken over %s after the leader's death", session, latest)
		}
		if timing.Claim > session || timing.Skew <= 0 || timing.Skew > 5*time.Second {
			t.Errorf("session_ttl %s: %+v", session, timing)
		}
	}
}

func TestStatus_InstanceOfANewerVersionHidesNoOther(t *testing.T) {
	r := newFixture(t)
	a, b := r.join("cts-01", nil), r.join("cts-02", nil)
	r.leads(a)
	runner := state.Runner{ID: "cts-02", Parallel: 2, Room: 2, Until: r.clock().Add(time.Hour)}
	if _, err := r.store.Apply(t.Context(), state.Create(state.RunnerKey("cts-02"), state.Encode(runner))); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{state.InstanceKey("cts-02"), state.RunnerKey("cts-02")} {
		rec, err := r.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		newer := bytes.Replace(rec.Value, fmt.Appendf(nil, `"format":%d`, state.Format), fmt.Appendf(nil, `"format":%d`, state.Format+1), 1)
		if _, err := r.store.Apply(t.Context(), state.Replace(rec, newer)); err != nil {
			t.Fatal(err)
		}
	}
	status, err := a.Status(t.Context())
	if err != nil || len(status.Members) != 1 || status.Members[0].ID != "cts-01" || !status.Members[0].Leader {
		t.Errorf("the cluster: %+v, %v", status, err)
	}
	o, err := overview.Reader{Store: r.store, Now: r.clock, Where: apispec.Store{Kind: "consul"}}.Recorded(t.Context())
	if err != nil || o.Leader == nil {
		t.Errorf("the overview: %+v, %v", o, err)
	}
	b.log.take()
	a.Join(t.Context())
	if log := a.log.take(); strings.Contains(log, "cannot check") {
		t.Errorf("the older instance logs %s", log)
	}
}
