package tableapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// stub simulates functions/reconcile.
func stub(t *testing.T, answer func(w http.ResponseWriter, asked string)) function.Function {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, r.Header.Get("X-Amz-Invocation-Type")+" "+string(body))
	}))
	t.Cleanup(server.Close)
	return function.Function{Name: "reconcile", Client: lambda.New(lambda.Options{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{}})}
}

func TestInspect_InvokesTheReconcileFunction(t *testing.T) {
	var asked string
	f := stub(t, func(w http.ResponseWriter, said string) {
		asked = said
		fmt.Fprint(w, `{"mode":"inspect","runs":[{"task":"web","run":"1","launch":"2","state":"intended"}]}`)
	})
	planned, err := inspect(t.Context(), f, "web", nil)
	if err != nil || planned.Task != "web" || planned.ID != "1" || asked != `RequestResponse {"mode":"inspect","tasks":["web"]}` {
		t.Errorf("%+v, %v; asked for %s", planned, err, asked)
	}
	if _, err := inspect(t.Context(), f, "web", json.RawMessage(`{"name":"web"}`)); err != nil || asked != `RequestResponse {"mode":"inspect","draft":{"name":"web"}}` {
		t.Errorf("%v; asked for %s", err, asked)
	}

	for says, answer := range map[string]func(http.ResponseWriter, string){
		"function reconcile: no bundle": func(w http.ResponseWriter, _ string) {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			fmt.Fprint(w, `{"errorMessage":"no bundle"}`)
		},
		"has started 0 runs: Consul is gone":    func(w http.ResponseWriter, _ string) { fmt.Fprint(w, `{"mode":"inspect","problem":"Consul is gone"}`) },
		"read the answer of function reconcile": func(w http.ResponseWriter, _ string) { fmt.Fprint(w, `null and void`) },
		"start an inspection of task web":       func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusForbidden) },
	} {
		if _, err := inspect(t.Context(), stub(t, answer), "web", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("said %v, want %s", err, says)
		}
	}
}

func TestInspections_PlanInHCPTerraformIsStartedAndNotAwaited(t *testing.T) {
	store := statetest.NewMemory()
	defer store.Close()
	asked := ""
	f := stub(t, func(w http.ResponseWriter, said string) { asked = said; w.WriteHeader(http.StatusAccepted) })
	cfg := &config.Config{OtherDriver: &config.Cloud{}, Tasks: []config.Task{{Name: "web", Enabled: true}}}
	all := inspections{f, store, func(context.Context) (*config.Config, string, error) { return cfg, "b1", nil }, new(overlay.Source)}
	planned, err := all.start(t.Context(), "web", nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := state.Read[state.Run](t.Context(), store, state.RunKey("web", planned.ID))
	if err != nil {
		t.Fatal(err)
	}
	launch, err := state.Read[state.Launch](t.Context(), store, state.LaunchKey(run.Data.Launch))
	if err != nil || launch.Data.Bundle != "b1" || asked != fmt.Sprintf(`Event {"mode":"inspect","launch":%q}`, launch.Data.ID) {
		t.Errorf("%+v, %v; asked for %s", launch.Data, err, asked)
	}
}

func TestWake_FailedInvocationDoesNotLoseAChange(t *testing.T) {
	var log, asked strings.Builder
	f := stub(t, func(w http.ResponseWriter, said string) {
		asked.WriteString(said)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	wake(f, slog.New(slog.NewTextHandler(&log, nil)))(t.Context())
	if !strings.Contains(log.String(), "waits for the next tick") || asked.String() != `Event {"mode":"reconcile","ended":true}` {
		t.Errorf("logged %q; asked for %s", log.String(), asked.String())
	}
}

func TestOutput_ReconcileFunctionReadsIt(t *testing.T) {
	asked, answer := "", `{"mode":"output","output":"aws_instance.web: Creating...\n"}`
	read := output(stub(t, func(w http.ResponseWriter, said string) {
		asked = said
		fmt.Fprint(w, answer)
	}))
	text, err := read(t.Context(), nil, state.Run{ID: "1", Task: "web"})
	if err != nil || text != "aws_instance.web: Creating...\n" || asked != `RequestResponse {"mode":"output","tasks":["web"],"run":"1"}` {
		t.Errorf("%q, %v; asked for %s", text, err, asked)
	}
	answer = `{"mode":"output","problem":"the token has expired"}`
	if _, err := read(t.Context(), nil, state.Run{ID: "1", Task: "web"}); err == nil || !strings.Contains(err.Error(), "the token has expired") {
		t.Errorf("a problem is answered with %v", err)
	}
}

// A what-if about tasks in HCP Terraform is written, and each launch gets an invocation of its own, which
// nobody waits for: an invocation lives for 15 minutes.
func TestInspections_WhatIfInHCPTerraformTakesSeveralInvocations(t *testing.T) {
	store := statetest.NewMemory()
	defer store.Close()
	var asked []string
	f := stub(t, func(w http.ResponseWriter, said string) {
		asked = append(asked, said)
		w.WriteHeader(http.StatusAccepted)
	})
	cfg := &config.Config{OtherDriver: &config.Cloud{}}
	for i := range 130 {
		cfg.Tasks = append(cfg.Tasks, config.Task{Name: fmt.Sprintf("task-%d", i), Enabled: true})
	}
	all := inspections{f, store, func(context.Context) (*config.Config, string, error) { return cfg, "b1", nil }, new(overlay.Source)}
	node := "n7"
	q, err := all.whatIf(t.Context(), condition.WhatIf{Without: []condition.Gone{{Node: node}}}, nil, "Ann")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := state.Read[state.Question](t.Context(), store, state.QuestionKey(q.ID))
	if err != nil || len(kept.Data.Runs) != 130 || kept.Data.By != "Ann" {
		t.Errorf("kept is a what-if by %s with %d runs, %v", kept.Data.By, len(kept.Data.Runs), err)
	}
	if len(asked) != 3 || !strings.HasPrefix(asked[0], `Event {"mode":"inspect","launch":"`) {
		t.Errorf("%d invocations, the first with %s", len(asked), asked[0])
	}
}
