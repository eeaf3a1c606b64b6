package consultest

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

func TestStart_ReturnsAReadyServer(t *testing.T) {
	s := Start(t)
	if _, err := s.Client().KV().Put(&api.KVPair{Key: "a", Value: []byte("b")}, nil); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := s.Client().Catalog().Nodes(nil)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes = %v, %v", nodes, err)
	}
	addr := s.Addr()
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("address after a restart = %s, was %s", s.Addr(), addr)
	}
	if pair, _, err := s.Client().KV().Get("a", nil); err != nil || pair != nil {
		t.Errorf("a restarted server without data still has %v (%v)", pair, err)
	}
}

func TestWithData_SurvivesARestart(t *testing.T) {
	s := Start(t, WithData())
	if _, err := s.Client().KV().Put(&api.KVPair{Key: "a", Value: []byte("b")}, nil); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if pair, _, err := s.Client().KV().Get("a", nil); err != nil || pair == nil {
		t.Errorf("pair = %v, %v", pair, err)
	}
}

func TestWithACLs_DenyWithoutAToken(t *testing.T) {
	s := Start(t, WithACLs())
	if _, err := s.Client().KV().Put(&api.KVPair{Key: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	nobody, err := api.NewClient(&api.Config{Address: s.Addr(), Token: "anonymous"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := nobody.KV().Get("a", nil); err == nil {
		t.Error("a request without a token was answered")
	}
}

func TestWithoutLeader_Answers(t *testing.T) {
	s := Start(t, WithoutLeader())
	leader, err := s.Client().Status().Leader()
	if err != nil || leader != "" {
		t.Errorf("leader = %q, %v", leader, err)
	}
}

func TestStartCluster_ElectsAnotherLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	servers := StartCluster(t)
	if _, err := servers[0].Client().KV().Put(&api.KVPair{Key: "a", Value: []byte("b")}, nil); err != nil {
		t.Fatal(err)
	}
	var first *Server
	for _, s := range servers {
		if s.Leads() {
			first = s
		}
	}
	if first == nil {
		t.Fatal("no server leads")
	}
	first.Stop()
	deadline := time.Now().Add(30 * time.Second)
	for {
		led := false
		for _, s := range servers {
			led = led || s != first && s.Leads()
		}
		if led {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no other server leads")
		}
		time.Sleep(50 * time.Millisecond)
	}
	first.Restart()
	if pair, _, err := first.Client().KV().Get("a", nil); err != nil || pair == nil {
		t.Errorf("pair = %v, %v", pair, err)
	}
}

func TestStartCluster_ACLsDenyWithoutAToken(t *testing.T) {
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	for _, s := range StartCluster(t, WithACLs()) {
		if _, err := s.Client().KV().Put(&api.KVPair{Key: "a"}, nil); err != nil {
			t.Fatal(err)
		}
		nobody, err := api.NewClient(&api.Config{Address: s.Addr(), Token: "anonymous"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := nobody.KV().Get("a", nil); err == nil {
			t.Error("a request without a token was answered")
		}
	}
}
