package statetest_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
)

func TestMemory_IsAStore(t *testing.T) {
	statetest.Test(t, func(*testing.T) func() state.Store {
		m := statetest.NewMemory()
		return func() state.Store { return m.Open() }
	})
}
