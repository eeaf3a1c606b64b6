package remotes_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestKinds_AdviceForOneMachineDoesNotNameAWS(t *testing.T) {
	for _, k := range remotes.Kinds {
		for _, word := range []string{"function", "subnet", "hcp_token"} {
			if strings.Contains(k.Fix, word) || !strings.Contains(k.FixInAWS, word) {
				t.Errorf("driver %q: on one machine: %s; in AWS: %s", k.Name, k.Fix, k.FixInAWS)
			}
		}
	}
}

func TestKinds_AreTheDriversWhoseTraitIsRemote(t *testing.T) {
	made := map[string]bool{}
	for _, k := range remotes.Kinds {
		made[k.Name] = true
	}
	for _, k := range config.DriverKinds {
		if made[k.Name] != k.Remote {
			t.Errorf("driver %q: Remote is %v, and a Kind is there: %v", k.Name, k.Remote, made[k.Name])
		}
		delete(made, k.Name)
	}
	for name := range made {
		t.Errorf("no block of task files is for the driver %q", name)
	}
	if remotes.Of(&config.Config{}) != nil {
		t.Error("a configuration without a driver block has another one than Terraform")
	}
}
