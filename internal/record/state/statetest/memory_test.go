package statetest_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

func TestMemory_IsAStore(t *testing.T) {
	statetest.Test(t, func(*testing.T) func() state.Store {
		m := statetest.NewMemory()
		return func() state.Store { return m.Open() }
	})
}
