package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// outputOf reads a chunk of the output of a run.
func (e *engine) outputOf(run string, offset int) (chunk apispec.RunOutputResponse) {
	e.t.Helper()
	decode(e.t, e.get(fmt.Sprintf("/v1/tasks/web/runs/%s/output?offset=%d", url.PathEscape(run), offset)), &chunk)
	return chunk
}

func TestRunOutput_IsReadInChunksWhileTheRunGoesOn(t *testing.T) {
	e := start(t, files)
	hold := e.holdRun(t)
	var runs apispec.RunsResponse
	decode(t, e.get("/v1/tasks/web/runs?limit=1"), &runs)
	run := runs.Runs[0]
	var chunk apispec.RunOutputResponse
	eventually(t, "its output is there", func() bool { chunk = e.outputOf(run.ID, 0); return chunk.Output != "" })
	const first = "Creating…\n"
	if chunk.Output != first || chunk.NextOffset != len(first) || chunk.Ended || chunk.State != apispec.RunStateRunning {
		t.Errorf("while the run goes on: %+v", chunk)
	}
	if run.LogURL == nil {
		t.Error("the run does not say where its output is")
	} else if got := e.get(*run.LogURL); got.status != 200 || got.body != first {
		t.Errorf("the log reads %d %q", got.status, got.body)
	}
	if chunk = e.outputOf(run.ID, chunk.NextOffset); chunk.Output != "" || chunk.NextOffset != len(first) || chunk.Ended {
		t.Errorf("nothing is new: %+v", chunk)
	}
	close(hold)
	eventually(t, "the run has ended", func() bool { chunk = e.outputOf(run.ID, len(first)); return chunk.Ended })
	if chunk.Output != "Apply complete! for web\n" || chunk.Offset != len(first) || chunk.State != apispec.RunStateSucceeded {
		t.Errorf("in the end: %+v", chunk)
	}
	if got := e.get("/v1/tasks/web/runs/" + run.ID + "/output?offset=-1"); got.status != http.StatusBadRequest {
		t.Errorf("an offset below 0 is answered with %d", got.status)
	}
}

func TestRunOutput_ChunksOfALongOutputMakeTheWhole(t *testing.T) {
	e := newEngine(t, files).serve()
	text := strings.Repeat("größer\n", 100_000)
	run := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunSucceeded, Created: time.Now(), Work: state.Work{Logs: len(text)}}
	e.put(t, state.RunKey("web", "r1"), run)
	if chunk := e.outputOf("r1", 0); chunk.Output != "" || !chunk.Ended {
		t.Errorf("a run without output: %+v", chunk)
	}
	if err := state.SaveLog(t.Context(), e.store, "web", "r1", []byte(text), time.Time{}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	chunks, chunk := 0, apispec.RunOutputResponse{}
	for !chunk.Ended && chunks < 10 {
		chunk = e.outputOf("r1", chunk.NextOffset)
		got.WriteString(chunk.Output)
		chunks++
	}
	if got.String() != text || chunks != 4 {
		t.Errorf("%d chunks make %d of %d bytes", chunks, got.Len(), len(text))
	}
}

func TestRunOutput_IncludesTheOutputOfTheRemoteRun(t *testing.T) {
	e := newEngine(t, files).serve()
	run := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunWaiting, Created: time.Now(),
		Remote: &state.RemoteRun{ID: "run-1", Phase: state.RemotePlanning}, Waits: state.Waits{Wait: &state.Wait{For: state.WaitRemotePlan, ID: "w"}}}
	rec, err := e.store.Apply(t.Context(), state.Create(state.RunKey("web", "r1"), state.Encode(run)))
	if err != nil {
		t.Fatal(err)
	}
	printed, fails := "planning\n", error(nil)
	e.Control.RemoteOutput = func(_ context.Context, cfg *config.Config, of state.Run) (string, error) {
		if _, ok := cfg.Task(of.Task); !ok || of.ID != "r1" {
			t.Errorf("the output of %+v is read", of)
		}
		return printed, fails
	}
	remote := func(c apispec.RunOutputResponse) bool { return c.Remote != nil && *c.Remote }
	if chunk := e.outputOf("r1", 0); chunk.Output != "planning\n" || chunk.Ended || !remote(chunk) {
		t.Errorf("before a step has printed anything: %+v", chunk)
	}
	const stored = "created\n"
	if err := state.SaveLog(t.Context(), e.store, "web", "r1", []byte(stored), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if chunk := e.outputOf("r1", 0); chunk.Output != stored+printed || chunk.Ended || !remote(chunk) {
		t.Errorf("while HCP Terraform plans: %+v", chunk)
	}
	printed += "planned\n"
	if chunk := e.outputOf("r1", len(stored)+9); chunk.Output != "planned\n" {
		t.Errorf("what is new: %+v", chunk)
	}
	fails = errors.New("no answer")
	if chunk := e.outputOf("r1", 0); chunk.Output != stored || chunk.Ended || !remote(chunk) {
		t.Errorf("while HCP Terraform does not answer: %+v", chunk)
	}
	fails, run.Wait.For = nil, state.WaitApproval
	if _, err := e.store.Apply(t.Context(), state.Replace(rec[0], state.Encode(run))); err != nil {
		t.Fatal(err)
	}
	if chunk := e.outputOf("r1", 0); chunk.Output != stored || remote(chunk) {
		t.Errorf("while the run waits for a person: %+v", chunk)
	}
}
