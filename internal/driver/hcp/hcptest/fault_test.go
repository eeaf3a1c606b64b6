package hcptest_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
)

func TestFail_BeforeTheEffect(t *testing.T) {
	c, ws := quick(t)
	version := c.upload(ws, nil, files("one"))
	create := data("runs", nil, "workspace", "workspaces", ws, "configuration-version", "configuration-versions", version)
	for _, f := range []hcptest.Fault{
		{Request: "POST runs", Status: 500},
		{Request: "POST runs", Lost: true},
		hcptest.RateLimited("POST runs", 1),
	} {
		c.Fail(f)
		if status, _ := c.call("POST", "runs", create); status != f.Status || len(c.Workspace("web").Runs) != 0 {
			t.Errorf("%+v: status %d, %d runs", f, status, len(c.Workspace("web").Runs))
		}
	}
	c.must(201, "POST", "runs", create)
	if n := c.Count("POST runs"); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

func TestFail_AfterTheEffect(t *testing.T) {
	c, ws := quick(t)
	for i, f := range []hcptest.Fault{
		{Request: "POST runs", Status: 502, After: true},
		{Request: "POST runs", Lost: true, After: true},
	} {
		version := c.upload(ws, nil, files("one"))
		c.Fail(f)
		status, _ := c.call("POST", "runs", data("runs", nil, "workspace", "workspaces", ws, "configuration-version", "configuration-versions", version))
		if runs := c.Workspace("web").Runs; status != f.Status || len(runs) != i+1 || runs[i].ConfigurationVersion != version {
			t.Errorf("%+v: status %d, runs %+v", f, status, runs)
		}
	}
}

func TestFail_EndsWhenItIsStopped(t *testing.T) {
	c, ws := quick(t)
	stop := c.Fail(hcptest.Fault{Request: "GET workspaces/*", Status: 503, Times: -1})
	for range 3 {
		c.must(503, "GET", "workspaces/"+ws, nil)
	}
	stop()
	c.must(200, "GET", "workspaces/"+ws, nil)
}

func TestFail_HoldsARequest(t *testing.T) {
	c, ws := quick(t)
	goOn := make(chan struct{})
	c.Fail(hcptest.Fault{Request: "GET workspaces/*", Hold: goOn})
	answered := make(chan int)
	go func() {
		status, _ := c.call("GET", "workspaces/"+ws, nil)
		answered <- status
	}()
	c.AwaitRequest("GET workspaces/*", 1)
	close(goOn)
	if status := <-answered; status != 200 {
		t.Errorf("status %d", status)
	}
}

func TestToken_HasOnlyItsRights(t *testing.T) {
	c, ws := quick(t)
	run := c.start(ws, "one", nil)
	c.Await(run, "planned")
	plan := at(c.must(200, "GET", "runs/"+run, nil), "data.relationships.plan.data.id").(string)
	c.token = c.NewToken("organization", hcptest.Rights{NoRuns: true, NoPlanJSON: true})
	c.must(200, "GET", "runs/"+run, nil)
	c.must(404, "POST", "runs", data("runs", nil, "workspace", "workspaces", ws))
	c.must(404, "POST", "runs/"+run+"/actions/apply", nil)
	c.must(404, "GET", "plans/"+plan+"/json-output", nil)
	c.must(404, "POST", "workspaces/"+ws+"/configuration-versions", data("configuration-versions", nil))
	if c.shown(run, "permissions.can-apply") != false {
		t.Error("the run says that the token may apply it")
	}
	c.Restrict(c.token, hcptest.Rights{NoWorkspaces: true})
	c.must(404, "POST", "workspaces/"+ws+"/vars", data("vars", object{"key": "a", "value": "b", "category": "env"}))
	c.must(404, "DELETE", "workspaces/"+ws, nil)
	c.must(202, "POST", "runs/"+run+"/actions/discard", nil)
	c.Revoke(c.token)
	c.must(401, "GET", "runs/"+run, nil)
}

func TestWorkspace_IsMovedAndConnected(t *testing.T) {
	c, ws := quick(t)
	c.Set("web", object{"name": "moved"})
	c.must(404, "GET", "organizations/acme/workspaces/web", nil)
	if name := at(c.must(200, "GET", "workspaces/"+ws, nil), "data.attributes.name"); name != "moved" {
		t.Errorf("its name is %v", name)
	}
	c.Set("moved", object{"vcs-repo": object{"identifier": "acme/net"}})
	c.must(422, "POST", "workspaces/"+ws+"/configuration-versions", data("configuration-versions", nil))
	c.must(422, "POST", "organizations/acme/workspaces", data("workspaces", object{"name": "moved"}))
	c.must(422, "POST", "organizations/acme/workspaces", data("workspaces", object{"name": "agents", "execution-mode": "agent"}))
	c.must(201, "POST", "organizations/acme/workspaces", data("workspaces", object{"name": "agents", "execution-mode": "agent", "agent-pool-id": c.AgentPool("office")}))
	c.Create("foreign", object{"description": "by hand"}, "team:net")
	foreign := c.Upload("foreign")
	if got := c.Workspace("foreign"); got.Current != foreign || !slices.Equal(got.Tags, []string{"team:net"}) {
		t.Errorf("a workspace of somebody else: %+v", got)
	}
	c.Untag("foreign", "team:net")
	c.Delete("foreign")
	if got := c.Workspaces(); !slices.Equal(got, []string{"agents", "moved"}) {
		t.Errorf("workspaces %q", got)
	}
}

func TestNotification_IsSigned(t *testing.T) {
	c, ws := quick(t)
	type message struct {
		RunID         string `json:"run_id"`
		Notifications []struct{ Trigger, Run_status string }
	}
	received := make(chan message, 10)
	status := http.StatusInternalServerError
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha512.New, []byte("key"))
		mac.Write(body)
		if r.Header.Get("X-TFE-Notification-Signature") != hex.EncodeToString(mac.Sum(nil)) {
			t.Error("the signature is wrong")
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		received <- m
	}))
	t.Cleanup(receiver.Close)
	configuration := data("notification-configurations", object{"name": "hint", "destination-type": "generic", "enabled": true, "url": receiver.URL, "token": "key",
		"triggers": []string{"run:needs_attention", "run:completed"}})
	c.must(422, "POST", "workspaces/"+ws+"/notification-configurations", configuration)
	<-received
	status = http.StatusOK
	c.must(201, "POST", "workspaces/"+ws+"/notification-configurations", configuration)
	if m := <-received; m.Notifications[0].Trigger != "verification" {
		t.Errorf("the first is %+v", m)
	}
	c.Await(c.start(ws, "aside", object{"plan-only": true}), "planned_and_finished") // without a notification
	run := c.start(ws, "one", nil)
	if m := <-received; m.RunID != run || m.Notifications[0].Trigger != "run:needs_attention" {
		t.Errorf("while it waits: %+v", m)
	}
	c.Confirm(run, "jane")
	if m := <-received; m.RunID != run || m.Notifications[0].Run_status != "applied" {
		t.Errorf("in the end: %+v", m)
	}
}
