package reconcilefunction

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// rendered is a stack whose snapshots can be rendered.
type rendered struct{ *stack }

func (s rendered) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	snap, err := s.stack.Snapshot(ctx, t)
	snap.Blocks = []consul.Block{{Variable: "services"}}
	return snap, err
}

func TestReconcile_OneTickPollsAllRunsOfHCPTerraformInThreeRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("has a thousand tasks")
	}
	t.Parallel()
	const tasks, running, bound = 1000, 50, 3
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("task-%04d", i))
	}
	s := newStack(t, names...)
	hcpServer := hcptest.New(t, hcptest.WithoutTerraform())
	module := filepath.Join(t.TempDir(), "module")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "main.tf"), []byte("variable \"services\" {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := s.configs["b1"]
	for i := range cfg.Tasks {
		cfg.Tasks[i].Module = module
	}
	driver := hcp.New(hcp.Options{})
	h := s.elsewhere(&remote{})
	cfg.OtherDriver = &config.Cloud{Hostname: hcpServer.URL, Organization: hcpServer.Organization, Token: hcpServer.Token, WorkspacePrefix: "net-"}
	must := func(payload string) { // on a slow machine, a minute is too short
		t.Helper()
		if _, err := s.within(10*time.Minute, h, payload); err != nil {
			t.Fatal(err)
		}
	}
	s.applied(cfg)

	h.executor.drivers = map[*remotes.Kind]remotes.Driver{remotes.Of(cfg): driver}
	h.executor.connect = func(context.Context, config.Consul) (runner.Consul, *runner.Supposer, error) {
		return rendered{s}, nil, nil
	}
	defer hcpServer.Hold("planning").Release()
	must(schedule)
	var request string
	for _, name := range names[:running] {
		hcpServer.Create("net-"+name, nil, config.CloudTag)
		rec, err := state.Read[state.Remote](t.Context(), s.store, state.RemoteKey(name))
		if err == nil { // the task was applied there
			_, err = s.store.Apply(t.Context(), rec.Write(state.Remote{Run: state.RemoteRun{Driver: "terraform-cloud"}, Workspace: hcpServer.Workspace("net-" + name).ID}))
		}
		if err != nil {
			t.Fatal(err)
		}
		request += fmt.Sprintf(",%q", name)
	}
	must(`{"mode":"once","tasks":[` + request[1:] + `]}`)
	waiting := func() (n int) {
		all, err := state.ReadAll[state.Task](t.Context(), s.store, state.TaskPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range all {
			if task.Data.LiveRemote() != nil && task.Data.Waits() != nil {
				n++
			}
		}
		return n
	}
	if n := waiting(); n != running {
		for _, name := range names[:running] {
			if run := s.run(name); run.State != state.RunWaiting {
				t.Errorf("run of %s: %s %s", name, run.State, run.Error)
			}
		}
		t.Fatalf("%d runs wait for HCP Terraform", n)
	}
	before := len(hcpServer.Requests())
	must(due)
	requests := hcpServer.Requests()[before:]
	t.Logf("a tick with %d tasks, %d of which have a run in HCP Terraform: %d requests", tasks, running, len(requests))
	if len(requests) == 0 || len(requests) > bound || waiting() != running {
		t.Errorf("%d requests: %q; %d runs wait", len(requests), requests, waiting())
	}
}

// hanging is a Consul that does not answer.
type hanging struct{ *stack }

func (hanging) Poll(ctx context.Context, _ consul.GateSet) (consul.Marks, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestReconcile_TickThatHasNoTimeLeftIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		h.engine.connect = func(context.Context, config.Consul) (consulClient, error) { return hanging{s}, nil }
		answer := s.must(h, schedule) // an error would be a dead letter
		if !strings.Contains(answer.Skipped, "watch Consul") || s.measured()["GoodTicks"] != 0 {
			t.Errorf("%+v", answer)
		}
	})
}
