package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// containerVariable is an environment variable. In a copy of the test program, it names the
// directory in which that copy acts as the container of launch l1.
const containerVariable = "TERRAPULSE_TEST_CONTAINER"

// TestContainer acts as the container, in a separate process.
func TestContainer(t *testing.T) {
	dir := os.Getenv(containerVariable)
	if dir == "" {
		t.Skip("not the container")
	}
	t.Chdir(dir)
	w := newTestWorker(openStore(t, dir), loadTasks(t, dir), os.Stdout)
	var err error
	if w.runner.Who, err = who("l1"); err != nil {
		t.Fatal(err)
	}
	t.Error(w.work(t.Context(), "l1"))
}

// A container is killed during an apply, and cannot release the lock of the state in S3.
func TestLocks_OfAKilledContainerAreReleased(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("states"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer server.Close()
	const lock = "env:/t0/state.tflock"
	locked := func() bool {
		object, err := backend.HeadObject("states", lock)
		if err == nil {
			object.Contents.Close()
		}
		return err == nil
	}
	c := newContainerWith(t, s3Backend(server.URL), slow)

	first := exec.Command(os.Args[0], "-test.run=^TestContainer$")
	first.Env = append(os.Environ(), containerVariable+"="+c.dir)
	var said testtools.Output
	first.Stdout, first.Stderr = &said, &said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); c.read("m0/begun") == "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	if run := c.run("t0"); run.State != state.RunRunning || !locked() {
		t.Fatalf("the run reads %+v, the state is locked: %v\n%s", run, locked(), &said)
	}

	lost, err := orphan.Runs(t.Context(), c.store, orphan.Stopped{Launch: "l1", Runner: "task", Why: "out of memory"}, time.Now())
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost are %+v, %v", lost, err)
	}
	c.write("m0/main.tf", "variable \"services\" {}\n"+good)
	c.again("l2")
	if err := c.work(t.Context(), "l2"); err != nil {
		t.Fatal(err)
	}
	run := c.run("t0")
	if run.State != state.RunSucceeded || c.read("m0/out") != "done" || locked() {
		t.Errorf("the next run reads %+v, the state is locked: %v", run, locked())
	}
	output, err := state.LoadLog(t.Context(), c.store, "t0", "l2-t0")
	if want := "its holder was run l1-t0 of this task, which is dead (lost with \"out of memory\"). Releasing this lock."; err != nil || !strings.Contains(string(output), want) {
		t.Errorf("its output does not tell (%v):\n%s", err, output)
	}
	if !strings.Contains(c.out.String(), "a state lock was released whose holder is dead") {
		t.Errorf("the log does not tell:\n%s", c.out)
	}
}

// again decides on the task again after its run has ended.
func (c *container) again(id string) {
	c.t.Helper()
	task, err := state.Read[state.Task](c.t.Context(), c.store, state.TaskKey("t0"))
	if err != nil || task.Data.Run != nil {
		c.t.Fatalf("the task reads %+v, %v", task.Data, err)
	}
	if _, err := c.store.Apply(c.t.Context(), state.Delete(task.Record)); err != nil {
		c.t.Fatal(err)
	}
	c.decide(id, state.KindApply)
}
