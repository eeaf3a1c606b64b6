//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// as returns the environment of a program that has a role: its requests to DynamoDB are judged by the
// policies of the role. A refused request fails the test.
func (c *cloud) as(role string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guards[role] == "" {
		c.guards[role] = guarded(c.t, c.roles[role], c.records, c.dynamo.URL, func(refused string) { c.t.Errorf("%s: %s", role, refused) })
	}
	env := maps.Clone(c.env)
	env["AWS_ENDPOINT_URL_DYNAMODB"] = c.guards[role]
	return env
}

// guarded returns the URL of a proxy that answers as DynamoDB does if a role lacks the right for a request. To the
// role, each table is the one of its stack.
func guarded(t testing.TB, policy rehearsal.Policy, table, target string, refused func(string)) string {
	t.Helper()
	proxy := proxyTo(t, target)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	var judged sync.Map // verdicts by request
	allows := func(r rehearsal.Request) bool {
		verdict, known := judged.Load(r.String())
		if !known {
			verdict, _ = judged.LoadOrStore(r.String(), policy.Allows(t, r))
		}
		return verdict.(bool)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the program has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		wants, err := rightsOf(operation, body)
		if err != nil {
			t.Errorf("%s: %v", operation, err)
		}
		for action, collections := range wants {
			if allows(rehearsal.Records(action, "arn:aws:dynamodb:eu-west-1:123456789012:table/"+table, collections...)) {
				continue
			}
			message := fmt.Sprintf("User: arn:aws:sts::123456789012:assumed-role/role/session is not authorized to perform: %s because no identity-based policy allows the %s action", action, action)
			refused(fmt.Sprintf("%s on %v", action, collections))
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.service#AccessDeniedException", "Message": message})
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// recordKey is a key or an item of a request, as far as the policies depend on it.
type recordKey struct {
	PK struct{ S string } `json:"pk"`
}

// rightsOf returns the actions that a request needs, each with the collections in dynamodb:LeadingKeys. IAM
// judges each part of a transaction like a request of its own.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html
func rightsOf(operation string, body []byte) (map[string][]string, error) {
	var in struct {
		Key, Item                 recordKey
		ExpressionAttributeValues map[string]struct{ S string }
		RequestItems              map[string]struct{ Keys []recordKey }
		TransactItems             []map[string]struct{ Key, Item recordKey }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	rights := map[string][]string{}
	add := func(action, collection string) error {
		if collection == "" {
			return fmt.Errorf("the request names no collection: %s", body)
		}
		if action = "dynamodb:" + action; !slices.Contains(rights[action], collection) {
			rights[action] = append(rights[action], collection)
		}
		return nil
	}
	switch operation {
	case "GetItem", "DeleteItem":
		return rights, add(operation, in.Key.PK.S)
	case "PutItem":
		return rights, add(operation, in.Item.PK.S)
	case "Query":
		return rights, add(operation, in.ExpressionAttributeValues[":pk"].S)
	case "BatchGetItem":
		for _, of := range in.RequestItems {
			for _, key := range of.Keys {
				if err := add(operation, key.PK.S); err != nil {
					return nil, err
				}
			}
		}
	case "TransactWriteItems":
		for _, part := range in.TransactItems {
			for kind, of := range part {
				action := kind + "Item"
				if kind == "ConditionCheck" {
					action = "ConditionCheckItem"
				}
				if err := add(action, of.Key.PK.S+of.Item.PK.S); err != nil {
					return nil, err
				}
			}
		}
	default:
		rights["dynamodb:"+operation] = nil // of the table
	}
	return rights, nil
}

// The rehearsed DynamoDB refuses what the role of a container lacks, alone and as a part of a transaction.
func TestRecords_OfOthersAreRefused(t *testing.T) {
	t.Parallel()
	stack := rehearse(t, options{name: stackName})
	address := dynamotest.Start(t)
	table := dynamotest.Table(t, address)
	var refused []string
	store := dynamo.New(dynamotest.Config(guarded(t, stack.Roles["RunnerRole"], stack.Outputs["Table"], address, func(what string) { refused = append(refused, what) })), table)
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
		}, "dynamodb:PutItem on [override]"},
		{"a definition in a transaction", func() error {
			_, err := store.Apply(t.Context(), state.Create("run/lb/2", []byte("{}")), state.Create("definition/lb", []byte("{}")))
			return err
		}, "dynamodb:PutItem on [run definition]"},
		{"the audit record", func() error {
			_, err := store.Apply(t.Context(), state.Delete(state.Record{Key: "audit-2026-11/1", Version: "1"}))
			return err
		}, "dynamodb:DeleteItem on [audit-2026-11]"},
		{"a list of the audit record", func() error { _, err := store.List(t.Context(), "audit-2026-11/"); return err }, "dynamodb:Query on [audit-2026-11]"},
	} {
		refused = nil
		err := tt.attempt()
		if err == nil || !strings.Contains(err.Error(), "AccessDeniedException") || !strings.Contains(err.Error(), "give the role this right") || len(refused) != 1 || refused[0] != tt.want {
			t.Errorf("%s: %v, %v", tt.what, refused, err)
		}
	}
	if _, err := store.Get(t.Context(), "run/lb/2"); err != state.ErrNotFound {
		t.Errorf("a part of a refused transaction was written: %v", err)
	}
}
