package instance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestConnect_WaitsForAnElectionOfConsulsServers(t *testing.T) {
	none, refused := fmt.Errorf("read the leader: %w", consul.ErrNoLeader), errors.New("connection refused")
	for name, test := range map[string]struct {
		answers []error // the last one repeats
		want    error
		least   time.Duration
	}{
		"a leader":                {[]error{nil}, nil, 0},
		"a leader after a while":  {[]error{none, none, none, nil}, nil, 3 * time.Second},
		"no leader":               {[]error{none}, consul.ErrNoLeader, electionPatience},
		"Consul does not answer":  {[]error{refused}, refused, 0},
		"it dies in the election": {[]error{none, refused}, refused, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), 0
			err := awaitLeader(t.Context(), func(context.Context) error {
				asked++
				return test.answers[min(asked, len(test.answers))-1]
			})
			if took := time.Since(began); !errors.Is(err, test.want) || took < test.least || took > test.least+2*time.Second {
				t.Errorf("%s: %v after %s", name, err, took)
			}
		})
	}
}

// It is what -once and start do first.
func TestConnect_AsksAgainInAnElection(t *testing.T) {
	asked := 0
	servers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leader := "10.0.0.1:8300"
		if asked++; asked < 3 {
			leader = ""
		}
		fmt.Fprintf(w, "%q", leader)
	}))
	defer servers.Close()
	if _, err := Connect(t.Context(), &config.Config{Consul: config.Consul{Address: servers.URL}}, true); err != nil || asked != 3 {
		t.Errorf("after %d requests: %v", asked, err)
	}
}
