//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// The rehearsed DynamoDB refuses what the role of a container lacks, alone and as a part of a transaction.
func TestRecords_OfOthersAreRefused(t *testing.T) {
	t.Parallel()
	stack := rehearse(t, options{name: stackName})
	address := dynamotest.Start(t)
	table := dynamotest.Table(t, address)
	var refused []string
	allows := func(r rehearsal.Request) bool {
		if !stack.Roles["RunnerRole"].Allows(t, r) {
			refused = append(refused, r.String())
			return false
		}
		return true
	}
	store := dynamo.New(dynamotest.Config(guarded(t, "DYNAMODB", strings.NewReplacer(table, stack.Outputs["Table"]), address, allows)), table)
	run := state.Create("run/lb/1", []byte("{}"))
	if _, err := store.Apply(t.Context(), run, state.Create("task/lb", []byte("{}"))); err != nil {
		t.Fatalf("its own records: %v", err)
	}
	for _, tt := range []struct {
		what    string
		attempt func() error
		want    string
	}{
		{"an override", func() error {
			_, err := store.Apply(t.Context(), state.Create("override/lb", []byte("{}")))
			return err
		}, `dynamodb:PutItem ["override"]`},
		{"a definition in a transaction", func() error {
			_, err := store.Apply(t.Context(), state.Create("run/lb/2", []byte("{}")), state.Create("definition/lb", []byte("{}")))
			return err
		}, `dynamodb:PutItem ["run","definition"]`},
		{"the audit record", func() error {
			_, err := store.Apply(t.Context(), state.Delete(state.Record{Key: "audit-2026-11/1", Version: "1"}))
			return err
		}, `dynamodb:DeleteItem ["audit-2026-11"]`},
		{"a list of the audit record", func() error { _, err := store.List(t.Context(), "audit-2026-11/"); return err }, `dynamodb:Query ["audit-2026-11"]`},
	} {
		refused = nil
		err := tt.attempt()
		action, keys, _ := strings.Cut(tt.want, " ")
		if err == nil || !strings.Contains(err.Error(), "AccessDeniedException") || !strings.Contains(err.Error(), "give the role this right") || len(refused) != 1 || !strings.HasPrefix(refused[0], action+" on ") || !strings.Contains(refused[0], keys) {
			t.Errorf("%s: %v, %v", tt.what, refused, err)
		}
	}
	if _, err := store.Get(t.Context(), "run/lb/2"); err != state.ErrNotFound {
		t.Errorf("a part of a refused transaction was written: %v", err)
	}
}
