package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/serve"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestApproval_ClientCertificateProvesWhoApproves(t *testing.T) {
	ca := testtools.NewAuthority(t)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca.CA)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	cert, key := ca.Server("api")
	for name, c := range map[string]struct {
		verifies      bool
		by            string
		authenticated bool
	}{
		"a certificate of the authority":         {true, "cert:ann", true},
		"a certificate that nobody has verified": {false, "jo@laptop (not proven)", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, files)
			e.waits()
			server, err := serve.Listen(t.Context(), serve.Options{Address: "127.0.0.1", Handler: api.New(e.options), Log: slog.New(slog.DiscardHandler),
				TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: c.verifies, CACert: ca.CA}})
			if err != nil {
				t.Fatal(err)
			}
			defer background.Run(t.Context(), func(ctx context.Context) { _ = server.Serve(ctx) })()
			own, err := tls.LoadX509KeyPair(ca.Client("ann"))
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}}}
			resp, err := client.Post("https://"+server.Addr().String()+"/v1/tasks/web/approval", "application/json", strings.NewReader(`{"decision": "approve", "plan": "plan-0001", "by": "jo@laptop"}`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			task, err := state.Read[state.Task](t.Context(), e.store, state.TaskKey("web"))
			if err != nil || resp.StatusCode != http.StatusAccepted {
				t.Fatalf("%d, %v", resp.StatusCode, err)
			}
			if a := task.Data.Run.Resume.Approval; a.By != c.by || a.Authenticated != c.authenticated {
				t.Errorf("approved by %q, authenticated: %v", a.By, a.Authenticated)
			}
		})
	}
}

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
	if _, err := e.store.Apply(t.Context(), state.Create(state.ReconcileKey, state.Encode(record))); err != nil {
		t.Fatal(err)
	}
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
			if _, err := e.store.Apply(t.Context(), state.Create(state.TaskKey("off"), state.Encode(c.task))); err != nil {
				t.Fatal(err)
			}
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
