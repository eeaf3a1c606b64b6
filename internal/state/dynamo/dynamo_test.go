package dynamo_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/dynamo"
	"github.com/terrapulse/terrapulse/internal/state/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/state/statetest"
)

func TestStore(t *testing.T) {
	url := dynamotest.Start(t)
	statetest.Test(t, func(t *testing.T) func() state.Store {
		table := dynamotest.Table(t, url)
		return func() state.Store { return dynamo.New(dynamotest.Config(url), table) }
	})
}
