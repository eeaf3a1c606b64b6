package consul

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestClient_Leader(t *testing.T) {
	t.Run("a cluster with a leader is well", func(t *testing.T) {
		if err := client(t, consultest.Start(t).Addr()).Leader(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a cluster without a leader is said to have none", func(t *testing.T) {
		c := client(t, consultest.Start(t, consultest.WithoutLeader()).Addr())
		if err := c.Leader(t.Context()); !errors.Is(err, ErrNoLeader) || !fault.IsTransient(err) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("nothing listens", func(t *testing.T) {
		err := client(t, deadAddress(t)).Leader(t.Context())
		if !fault.IsTransient(err) || errors.Is(err, ErrNoLeader) {
			t.Errorf("error = %v", err)
		}
	})
}

// deadAddress is a loopback address that refuses connections.
func deadAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestClient_DoesNotReadWithoutALeader(t *testing.T) {
	c := client(t, consultest.Start(t, consultest.WithoutLeader()).Addr())
	q := query(t, services("web", "db"))
	err := c.Observe(t.Context(), []Query{q})[0].Err
	if !errors.Is(err, ErrNoLeader) || !fault.IsTransient(err) || !strings.Contains(err.Error(), "No cluster leader") {
		t.Errorf("Observe: %v", err)
	}
	if _, err := c.Snapshot(t.Context(), task(services("web"))); !errors.Is(err, ErrNoLeader) {
		t.Errorf("Snapshot: %v", err)
	}
	if marks, err := c.Poll(t.Context(), PollGates([]Query{q})); !errors.Is(err, ErrNoLeader) || len(marks) > 0 {
		t.Errorf("Poll: %v, %v", marks, err)
	}
}

func TestClient_ErrorsSayWhatToDo(t *testing.T) {
	s := consultest.Start(t)
	acl := consultest.Start(t, consultest.WithACLs())
	open := client(t, s.Addr())
	stranger := clientOf(t, config.Consul{Address: acl.Addr(), Token: "s3cr3t-t0ken"})
	nobody := clientOf(t, config.Consul{Address: acl.Addr()})

	for _, c := range []struct {
		name   string
		client *Client
		cond   condition.Spec
		is     func(error) bool
		text   []string
	}{
		{"nothing listens", client(t, deadAddress(t)), services("web"), fault.IsTransient,
			[]string{`read service "web"`, "127.0.0.1:", "consul.address"}},
		{"a filter that does not parse", open, condition.Services{{Names: []string{"web"}, Filter: "foo bar"}}, isBadQuery,
			[]string{`read service "web"`, "check the filter"}},
		{"a filter on what does not exist", open, condition.Services{{Names: []string{"web"}, Filter: `Nope == "1"`}}, isBadQuery,
			[]string{`Selector "Nope"`, "check the filter"}},
		{"a datacenter that is not there", open, condition.Services{{Names: []string{"web"}, Datacenter: "mars"}}, isBadQuery,
			[]string{"in datacenter mars", "No path to datacenter", "consul members -wan"}},
		{"a namespace on Consul CE", open, condition.ConsulKV{Path: "a", Namespace: "team"}, isBadQuery,
			[]string{`read key "a" in namespace team`, "Unexpected response code: 400 (Invalid query parameter: \"ns\"", "remove them"}},
		{"services in a namespace on Consul CE", open, condition.Services{{Names: []string{"web"}, Namespace: "team"}}, isBadQuery,
			[]string{"Unexpected response code: 400 (Invalid query parameter: \"ns\"", "remove them"}},
		{"names in a namespace on Consul CE", open, condition.CatalogServices{Regexp: "", Namespace: "team"}, isBadQuery,
			[]string{"Unexpected response code: 400 (Invalid query parameter: \"ns\"", "remove them"}},
		{"a key with an empty element", open, condition.ConsulKV{Path: "a//b"}, isBadQuery, []string{`"a//b"`}},
		{"a path that leads elsewhere", open, services("../../status/leader"), isBadQuery, []string{"status/leader"}},
		{"a regular expression that does not compile", open, matching("("), isBadQuery, []string{`"("`, "missing closing"}},
		{"a catalog expression that does not compile", open, condition.CatalogServices{Regexp: "["}, isBadQuery, []string{`"["`}},
		{"a token that Consul does not know", stranger, services("web"), IsForbidden, []string{"wrong, expired or deleted"}},
		{"a key that may not be read", nobody, condition.ConsulKV{Path: "a"}, IsForbidden, []string{`key:read on "a"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.client.Observe(t.Context(), []Query{query(t, c.cond)})[0].Err
			if err == nil || !c.is(err) {
				t.Fatalf("error = %v", err)
			}
			for _, text := range c.text {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is missing in: %v", text, err)
				}
			}
			if strings.Contains(err.Error(), "leader") && !strings.Contains(c.text[0], "leader") {
				t.Errorf("a leader is missed in: %v", err)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the token is in: %v", err)
			}
			if _, other := c.client.Snapshot(t.Context(), task(c.cond)); other == nil || other.Error() != err.Error() {
				t.Errorf("Snapshot says %v, Observe %v", other, err)
			}
		})
	}
}

func TestClient_WhatATokenMayNotReadIsNotGone(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs())
	register(t, s, "n1", api.AgentService{Service: "web"})
	register(t, s, "n1", api.AgentService{Service: "db"})
	putKey(t, s, "config/a", "1")
	putKey(t, s, "secret/a", "1")

	admin := s.Client()
	policy, _, err := admin.ACL().PolicyCreate(&api.ACLPolicy{Name: "web", Rules: `
		service "web" { policy = "read" }
		node_prefix "" { policy = "read" }
		key_prefix "config/" { policy = "read" }`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := admin.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(t, config.Consul{Address: s.Addr(), Token: token.SecretID})

	for _, allowed := range []condition.Spec{services("web"), services("nothing-there"), matching(".*"),
		condition.ConsulKV{Path: "config/a"}, condition.ConsulKV{Path: "config/", Recurse: true}, condition.ConsulKV{Path: "", Recurse: true}} {
		if err := c.Observe(t.Context(), []Query{query(t, allowed)})[0].Err; err != nil {
			t.Errorf("%+v: %v", allowed, err)
		}
	}
	for _, hidden := range []condition.Spec{services("db"), condition.ConsulKV{Path: "secret/a"}, condition.ConsulKV{Path: "secret/", Recurse: true}} {
		err := c.Observe(t.Context(), []Query{query(t, hidden)})[0].Err
		if !IsForbidden(err) {
			t.Errorf("%+v: %v", hidden, err)
		}
	}
	// The gates work for such a token too.
	q := query(t, condition.ConsulKV{Path: "config/", Recurse: true})
	set := PollGates([]Query{q, query(t, services("web", "web2")), query(t, condition.ConsulKV{Path: "config/a"})})
	before, err := c.Poll(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, s, "config/a", "2")
	after, err := c.Poll(t.Context(), set)
	if err != nil || !set.Moved(before, after)(q) {
		t.Errorf("a changed key was missed: %v %v %v", before, after, err)
	}
}

func TestPoll_ReadsKeysIfTheKVGateIsDenied(t *testing.T) {
	s := consultest.Start(t, consultest.WithACLs(), consultest.WithHCL("acl { enable_key_list_policy = true }"))
	putKey(t, s, "config/a", "1")
	admin := s.Client()
	policy, _, err := admin.ACL().PolicyCreate(&api.ACLPolicy{Name: "keys", Rules: `key_prefix "config/" { policy = "list" }`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := admin.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(t, config.Consul{Address: s.Addr(), Token: token.SecretID})
	queries := []Query{query(t, condition.ConsulKV{Path: "config/a"}), query(t, condition.ConsulKV{Path: "config/", Recurse: true})}
	set := PollGates(queries)
	poll := func() Marks {
		marks, err := c.Poll(t.Context(), set)
		if err != nil || len(marks) != 1 {
			t.Fatalf("Poll = %v, %v", marks, err)
		}
		return marks
	}
	first := poll()
	if set.Moved(first, poll())(queries[0]) {
		t.Error("the gate moves without a change")
	}
	putKey(t, s, "config/a", "2")
	if !set.Moved(first, poll())(queries[0]) {
		t.Error("a changed key was missed")
	}
}

func TestClient_ReadTimesOut(t *testing.T) {
	s := consultest.Start(t)
	proxy := consultest.NewProxy(t, s.Addr())
	proxy.Set(consultest.Hanging)
	c := client(t, proxy.Addr())
	c.timeout = 50 * time.Millisecond

	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("service-%d", i)
	}
	err := c.Observe(t.Context(), []Query{query(t, services(names...))})[0].Err
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("error = %v", err)
	}
	if n := proxy.Total(); n > 2*maxReads {
		t.Errorf("%d requests were sent to a Consul that does not answer", n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Leader(ctx); !errors.Is(err, context.Canceled) || fault.IsTransient(err) {
		t.Errorf("a caller who gives up sees %v", err)
	}
}

func TestClient_AnswerThatIsCutShortIsAnError(t *testing.T) {
	for name, body := range map[string]string{
		"within an element":  `[{"Node":{"Node":"n"},"Service":{"ID":"a"}},{"Node":{"No`,
		"between elements":   `[{"Node":{"Node":"n"},"Service":{"ID":"a"}}`,
		"before it starts":   ``,
		"another service's":  `<html>hello</html>`,
		"of another kind":    `{"a": 1}`,
		"with other numbers": `[{"Service":{"Port":"eighty"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Consul-Index", "7")
				fmt.Fprint(w, body)
			}))
			defer server.Close()
			_, err := client(t, server.URL).Snapshot(t.Context(), task(services("a")))
			if !fault.IsTransient(err) || !strings.Contains(err.Error(), server.URL[len("http://"):]) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestClient_NamesWhyAConnectionEndedBeforeTheRequest(t *testing.T) {
	c := client(t, "127.0.0.1:1")
	early := func(cause error) string { // as net/http puts it
		err := c.transportError(t.Context(), request{Request: condition.Request{Act: "read"}}, &url.Error{Op: "Get", URL: "/", Err: fmt.Errorf("readLoopPeekFailLocked: %w", cause)})
		if !fault.IsTransient(err) || strings.Contains(err.Error(), "readLoop") {
			t.Errorf("error = %v", err)
		}
		return err.Error()
	}
	if text := early(errors.New("remote error: tls: certificate required")); !strings.Contains(text, ": remote error: tls: certificate required") ||
		strings.Contains(text, "http_max_conns_per_client") {
		t.Errorf("a certificate that is missing: %s", text)
	}
	if text := early(nil); !strings.Contains(text, "http_max_conns_per_client") {
		t.Errorf("an answer before the question: %s", text)
	}
	if text := early(&net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed}); !strings.Contains(text, "http_max_conns_per_client") {
		t.Errorf("an answer during the question: %s", text)
	}
}

func TestClient_AcceptsStatus404OnlyFromConsul(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := client(t, server.URL).Snapshot(t.Context(), task(condition.ConsulKV{Path: "a"}))
	if err == nil {
		t.Error("a server that knows no KV store was believed that there is no such key")
	}
}

func TestClient_ClassifiesStatus(t *testing.T) {
	var status int
	var leader, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "7")
		w.Header().Set("X-Consul-KnownLeader", leader)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	c := client(t, server.URL)
	for _, test := range []struct {
		status       int
		leader, body string
		is           func(error) bool
	}{
		{200, "true", "[]", func(err error) bool { return err == nil }},
		{200, "false", "[]", func(err error) bool { return fault.IsTransient(err) && errors.Is(err, ErrNoLeader) }},
		{500, "", "No cluster leader", func(err error) bool { return fault.IsTransient(err) && errors.Is(err, ErrNoLeader) }},
		{500, "", "rpc error: broken pipe", fault.IsTransient},
		{502, "", "", fault.IsTransient},
		{429, "", "Your IP is issuing too many concurrent connections", fault.IsTransient},
		{408, "", "", fault.IsTransient},
		{500, "", "rpc error making call: Permission denied", IsForbidden},
		{403, "", "Permission denied", IsForbidden},
		{401, "", "", IsForbidden},
		{400, "", "Bad request", isBadQuery},
	} {
		status, leader, body = test.status, test.leader, test.body
		_, err := c.Snapshot(t.Context(), task(services("web")))
		kinds := 0
		for _, is := range []func(error) bool{fault.IsTransient, IsForbidden, isBadQuery} {
			if is(err) {
				kinds++
			}
		}
		if !test.is(err) || (err != nil) != (kinds == 1) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestClient_TooManyConnectionsFromOneAddress(t *testing.T) {
	const limit = 20
	s := consultest.Start(t, consultest.WithHCL(fmt.Sprintf("limits { http_max_conns_per_client = %d }", limit)))
	for range limit {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// Consul's refusal may come before the request or after it. In between, net/http logs it.
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard)
	for range 50 {
		err := client(t, s.Addr()).Leader(t.Context())
		if !fault.IsTransient(err) {
			t.Fatalf("got %v", err)
		}
		for _, text := range []string{"limits.http_max_conns_per_client", "200"} {
			if !strings.Contains(err.Error(), text) {
				t.Fatalf("%q is missing in: %v", text, err)
			}
		}
	}
}

func TestClient_ConnectionSettings(t *testing.T) {
	s := consultest.Start(t)
	register(t, s, "n1", api.AgentService{Service: "web"})
	target := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: s.Addr()})
	}}
	read := func(t *testing.T, cfg config.Consul) error {
		t.Helper()
		return clientOf(t, cfg).Observe(t.Context(), []Query{query(t, services("web"))})[0].Err
	}

	t.Run("TLS with a private CA", func(t *testing.T) {
		server := httptest.NewUnstartedServer(target)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that refuse it
		server.StartTLS()
		defer server.Close()
		ca := filepath.Join(t.TempDir(), "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(ca, block, 0o600); err != nil {
			t.Fatal(err)
		}
		address := strings.TrimPrefix(server.URL, "https://")
		if err := read(t, config.Consul{Address: address, TLS: config.ClientTLS{Enabled: true, Verify: true, CACert: ca}}); err != nil {
			t.Error(err)
		}
		if err := read(t, config.Consul{Address: server.URL, TLS: config.ClientTLS{CACert: ca}}); err != nil {
			t.Errorf("by the address's scheme: %v", err)
		}
		if err := read(t, config.Consul{Address: address, TLS: config.ClientTLS{Enabled: true}}); err != nil {
			t.Errorf("without verification: %v", err)
		}
		if err := read(t, config.Consul{Address: address, TLS: config.ClientTLS{Enabled: true, Verify: true}}); err == nil {
			t.Error("an unknown authority was trusted")
		}
	})
	t.Run("files that cannot be used are named", func(t *testing.T) {
		dir := t.TempDir()
		bad := filepath.Join(dir, "bad.pem")
		if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(dir, "missing.pem")
		for _, tls := range []config.ClientTLS{{CACert: missing}, {CAPath: missing}, {Cert: missing}, {Cert: bad, Key: missing},
			{CACert: bad}, {Cert: bad, Key: bad}} {
			want := missing
			if tls.CACert == bad || tls.Key == bad {
				want = bad
			}
			_, err := New(config.Consul{TLS: tls})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "consul.tls") {
				t.Errorf("%+v: %v", tls, err)
			}
		}
	})
	t.Run("basic authentication and token", func(t *testing.T) {
		var user, password, token string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ = r.BasicAuth()
			token = r.Header.Get("X-Consul-Token")
			target.ServeHTTP(w, r)
		}))
		defer server.Close()
		err := clientOf(t, config.Consul{Address: server.URL, Token: "tok",
			Auth: config.BasicAuth{Enabled: true, Username: "me", Password: "pass"}}).Leader(t.Context())
		if err != nil || user != "me" || password != "pass" || token != "tok" {
			t.Errorf("%v: user %q, password %q, token %q", err, user, password, token)
		}
	})
	t.Run("a path in front of the API", func(t *testing.T) {
		server := httptest.NewServer(http.StripPrefix("/consul", target))
		defer server.Close()
		if err := read(t, config.Consul{Address: server.URL + "/consul"}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a Unix socket", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Skip(err)
		}
		server := &http.Server{Handler: target}
		go func() { _ = server.Serve(l) }() // until Close
		defer server.Close()
		if err := read(t, config.Consul{Address: "unix://" + socket}); err != nil {
			t.Error(err)
		}
	})
	t.Run("namespace and partition of the connection", func(t *testing.T) {
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.URL.Path+" "+r.FormValue("ns")+" "+r.FormValue("partition"))
			w.Header().Set("X-Consul-Index", "1")
			fmt.Fprint(w, "[]")
		}))
		defer server.Close()
		c := clientOf(t, config.Consul{Address: server.URL, Namespace: "team", Partition: "part"})
		own := condition.Services{{Names: []string{"web"}, Namespace: "other"}}
		for _, cond := range []condition.Spec{services("web"), own} {
			if err := c.Observe(t.Context(), []Query{query(t, cond)})[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Poll(t.Context(), nodesOf(t, "other")); err != nil {
			t.Fatal(err)
		}
		want := "/v1/health/service/web team part,/v1/health/service/web other part,/v1/catalog/nodes  part"
		if strings.Join(got, ",") != want {
			t.Errorf("asked for %q", got)
		}
	})
	t.Run("an address that cannot be used", func(t *testing.T) {
		if _, err := New(config.Consul{Address: "ftp://me:hunter2@host"}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error = %v", err)
		}
		if _, err := New(config.Consul{Address: "ftp://host"}); err == nil || !strings.Contains(err.Error(), "ftp://host") {
			t.Errorf("error = %v", err)
		}
	})
}
