package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestHealth_ShowsTheLatestEvents(t *testing.T) {
	s := newSite(t, "web")
	b := browsertest.New(t)
	b.Open(s.url + "/ui/health")
	b.Until("Nothing has happened yet", "1.2.3")
	res, err := http.PostForm(s.url+"/ui/tasks/web/hold", url.Values{"comment": {"until the new tunnel is up"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	b.Until("until the new tunnel is up", "Latest events") // without a reload
	b.Click("web")
	b.Comes("/ui/tasks/web")
}

func TestHealth_ShowsGatesAndInstances(t *testing.T) {
	unreadable, dc, version, silent := "403: permission denied", "dc2", "1.3.9", apispec.MemberStateSilent
	o := apispec.Overview{Healthy: true, Leader: &apispec.Leader{Owner: "net-1", Fence: 418},
		Gates: &[]apispec.Gate{{Name: "nodes"}, {Name: "health checks", Datacenter: &dc, Error: &unreadable}}, Store: &apispec.Store{Kind: "consul", Where: "terrapulse/net"},
		Instance: &apispec.Instance{ID: "cts-net-1", Owner: "net-1", Consul: new("consul.example:8501"), Terraform: new("terraform 1.13.5")}}
	s := answering(t, map[string]any{"/v1/overview": o, "/v1/version": apispec.VersionResponse{}, "/v1/events": apispec.EventsResponse{}, "/v1/status/cluster": apispec.ClusterStatus{Members: []apispec.ClusterMember{
		{ID: "net-1", Leader: true, Healthy: true}, {ID: "net-2", Healthy: true, Parallel: new(4), Room: new(3), Differs: &[]string{"module", "guard"}}, {ID: "net-3", State: &silent, Version: &version}}}})
	s.page("/ui/health", "net-1", "Consul KV", "terrapulse/net", ">leads<", ">stands by<", ">silent<", "4 at a time", "3 free", ">differs<", ">The leader gives it no runs, because they differ in: module, guard.<", "1.3.9", ">watched<", ">not readable<", unreadable, "dc2", "This instance", "cts-net-1", "consul.example:8501", "terraform 1.13.5", ">healthy<")
}

func TestHealth_ProblemThatHasJustBegunIsNotShownAsHealthy(t *testing.T) {
	o := apispec.Overview{Healthy: true, Problem: new("connection refused"), Leader: &apispec.Leader{Owner: "net-1", Fence: 418}}
	s := answering(t, map[string]any{"/v1/overview": o, "/v1/version": apispec.VersionResponse{}, "/v1/events": apispec.EventsResponse{}})
	if page, _ := s.page("/ui/health", ">degraded<", "connection refused"); strings.Contains(page, ">healthy<") {
		t.Errorf("the page is %s", page)
	}
}

// answering is pages over an API that has these answers, by their paths.
func answering(t *testing.T, answers map[string]any) *site {
	t.Helper()
	api := http.NewServeMux()
	for path, answer := range answers {
		api.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		})
	}
	return handled(t, io.Discard, api.ServeHTTP)
}
