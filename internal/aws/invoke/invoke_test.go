package invoke_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
)

func TestParse_ReadsEveryField(t *testing.T) {
	got, err := invoke.Parse([]byte(`{"mode":"once","tasks":["web"],"wait":true,"refresh":true,"ended":true}`))
	want := invoke.Request{Mode: invoke.Once, Tasks: []string{"web"}, Wait: true, Refresh: true, Ended: true}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParse_RefusesInvalidRequests(t *testing.T) {
	for _, tt := range []struct{ name, payload, says string }{
		{"nothing", ``, "cannot be decoded"},
		{"junk", strings.Repeat("x", 1000), "cannot be decoded"},
		{"a megabyte of junk", strings.Repeat("x", 1<<20), "1048576 bytes: send at most"},
		{"another event", `{"Records":[]}`, `unknown field "Records"`},
		{"a number", `17`, "cannot be decoded"},
		{"no mode", `{}`, "use one of reconcile, once, inspect, doctor, output"},
		{"an unknown mode", `{"mode":"destroy"}`, `mode "destroy" is unknown`},
		{"an unknown field", `{"mode":"once","task":"web"}`, `unknown field "task"`},
		{"tasks of the wrong kind", `{"mode":"once","tasks":"web"}`, "cannot be decoded"},
		{"tasks for all", `{"mode":"reconcile","tasks":["web"]}`, "accepts no tasks"},
		{"a window to inspect in", `{"mode":"inspect","window":true}`, "accepts no window"},
		{"a bundle to run", `{"mode":"once","bundle":"0123"}`, "a bundle is for mode inspect"},
		{"a what-if to run", `{"mode":"once","what_if":{"without":[{"node":"n7"}]}}`, "a what-if is for mode inspect"},
		{"by whom without plans or runs", `{"mode":"reconcile","by":"ann"}`, "by and noted are for"},
		{"a what-if beside a draft", `{"mode":"inspect","what_if":{},"draft":{"name":"web"}}`, "without draft"},
		{"a bundle beside a draft", `{"mode":"inspect","bundle":"0123","draft":{"name":"web"}}`, "without a draft"},
		{"a draft to run", `{"mode":"once","draft":{"name":"web"}}`, "a draft is for mode inspect"},
		{"a draft beside tasks", `{"mode":"inspect","tasks":["web"],"draft":{"name":"web"}}`, "without tasks"},
		{"a launch beside tasks", `{"mode":"inspect","tasks":["web"],"launch":"1"}`, "a launch is for mode inspect, alone"},
		{"an output of no run", `{"mode":"output","tasks":["web"]}`, "needs one task and a run"},
		{"an output of two tasks", `{"mode":"output","tasks":["web","dns"],"run":"1"}`, "needs one task and a run"},
		{"a run to inspect", `{"mode":"inspect","tasks":["web"],"run":"1"}`, "no other mode has a run"},
		{"two requests", `{"mode":"once"}{"mode":"once"}`, "send one object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := invoke.Parse([]byte(tt.payload))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("said %v, want %s", err, tt.says)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
