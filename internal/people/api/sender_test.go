package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestConsulApproval_IsRecordedWithItsSender(t *testing.T) {
	e := newEngine(t, files)
	approve := func(body, token string) (int, string) {
		t.Helper()
		var said json.RawMessage
		code := e.sends("POST", "/v1/consul/approval", body, token, &said)
		return code, string(said)
	}
	if code, said := approve(`{"by": "jo@laptop"}`, ""); code != http.StatusConflict || !strings.Contains(said, "no task waits because Consul was replaced") {
		t.Errorf("nothing is held: %d %s", code, said)
	}
	record := state.Reconcile{Replaced: &state.Replaced{Why: "it is another", Tasks: 3, Shown: "what is shown"}}
	e.put(t, state.ReconcileKey, record)
	for body, want := range map[string]int{`{"by": 1}`: http.StatusBadRequest, `{"plan": "p"}`: http.StatusBadRequest, ``: http.StatusBadRequest,
		`{"comment": "` + strings.Repeat("x", 1001) + `"}`: http.StatusBadRequest} {
		if code, said := approve(body, ""); code != want {
			t.Errorf("%.40s: %d %s", body, code, said)
		}
	}
	for range 2 { // it is safe to repeat
		if code, said := approve(`{"by": "jo@laptop", "comment": "set up anew"}`, "ops"); code != http.StatusAccepted {
			t.Errorf("%d %s", code, said)
		}
	}
	rec, err := state.ReadReconcile(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	if a := rec.Data.Replaced.Approved; a == nil || a.By != "token:ops" || !a.Authenticated || a.Comment != "set up anew" || a.Shown != "what is shown" {
		t.Errorf("%+v", a)
	}
}

func TestPause_IsRecordedWithItsSender(t *testing.T) {
	e := newEngine(t, files)
	var said apispec.PauseResponse
	for _, path := range []string{"/v1/pause", "/v1/resume"} {
		for _, body := range []string{`{"by": 1}`, `{"comment": "x"}`, ``, `{"reason": "` + strings.Repeat("x", 1001) + `"}`} {
			if code := e.sends("POST", path, body, "ops", new(json.RawMessage)); code != http.StatusBadRequest {
				t.Errorf("%s with %.40s: %d", path, body, code)
			}
		}
	}
	for _, by := range []string{"ops", ""} { // the earlier pause stays
		said = apispec.PauseResponse{}
		if code := e.sends("POST", "/v1/pause", `{"by": "jo@laptop", "reason": "maintenance"}`, by, &said); code != http.StatusOK ||
			said.Paused == nil || said.Paused.By != "token:ops" || apispec.Deref(said.Paused.Reason) != "maintenance" {
			t.Errorf("%d %+v", code, said.Paused)
		}
	}
	var shown apispec.Overview
	if code := e.sends("GET", "/v1/overview", "", "", &shown); code != http.StatusOK || shown.Paused == nil || shown.Paused.By != "token:ops" {
		t.Errorf("%d, the overview shows %+v", code, shown.Paused)
	}
	for _, ended := range []bool{true, false} {
		said = apispec.PauseResponse{}
		if code := e.sends("POST", "/v1/resume", `{"by": "jo@laptop"}`, "", &said); code != http.StatusOK || (said.Paused != nil) != ended {
			t.Errorf("%d %+v", code, said.Paused)
		}
	}
}

func TestRun_ThatAPersonOrAWindowKeepsBackIsAnsweredAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		task state.Task
		says string
	}{
		"on hold":              {state.Task{Stops: state.Stops{OnHold: &state.OnHold{By: "jo"}}}, "on hold by jo"},
		"outside its window":   {state.Task{Reason: state.Reason{Code: state.ReasonOutside, Text: "outside its window"}}, "outside its window"},
		"everything is paused": {state.Task{Reason: state.Reason{Code: state.ReasonPaused, Text: "paused by jo"}}, "paused by jo"},
		"Consul was replaced":  {state.Task{Reason: state.Reason{Code: state.ReasonReplaced, Text: "Consul was replaced"}}, "Consul was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, files)
			e.put(t, state.TaskKey("off"), c.task)
			leads, end := context.WithCancel(t.Context())
			defer end()
			go e.decides(leads, "off", c.task.Reason)
			var said apispec.ErrorResponse
			code := e.sends("PATCH", "/v1/tasks/off?run=now", `{"enabled": true}`, "", &said)
			if text := said.Error.Message; code != http.StatusConflict || !strings.Contains(text, c.says) || !strings.Contains(text, "otherwise the task stays as it was") {
				t.Errorf("%d %s", code, text)
			}
			code = e.sends("POST", "/v1/tasks/off/run?wait=true", "", "", &said)
			if code != http.StatusConflict || !strings.Contains(said.Error.Message, c.says) {
				t.Errorf("%d %s", code, said.Error.Message)
			}
		})
	}
}

// decides is a leader that answers each request with the same decision.
func (e *engine) decides(ctx context.Context, task string, reason state.Reason) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.asked:
		}
		for decided := false; !decided && ctx.Err() == nil; {
			record, err := state.Read[state.Task](ctx, e.store, state.TaskKey(task))
			if err == nil {
				record.Data.Reason = reason
				_, err = e.store.Apply(ctx, record.Write(record.Data))
			}
			decided = err == nil // another request may have changed the record
		}
	}
}
