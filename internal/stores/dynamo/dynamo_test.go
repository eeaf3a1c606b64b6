package dynamo_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

func TestStore(t *testing.T) {
	if testing.Short() {
		if err := flag.Set("rapid.checks", "10"); err != nil {
			t.Fatal(err)
		}
	}
	url := dynamotest.Start(t)
	statetest.Test(t, func(t *testing.T) func() state.Store {
		table := dynamotest.Table(t, url)
		return func() state.Store { return dynamo.New(dynamotest.Config(url), table) }
	})
}

// behind returns a store in a new table behind a proxy, and a client of the table itself.
func behind(t *testing.T) (*dynamo.Store, *dynamotest.Proxy, *raw) {
	t.Helper()
	url := dynamotest.Start(t)
	table := dynamotest.Table(t, url)
	proxy := dynamotest.NewProxy(t, url)
	return dynamo.New(dynamotest.Config(proxy.URL), table), proxy, &raw{t, dynamodb.NewFromConfig(dynamotest.Config(url)), table}
}

// raw is a table as the AWS console shows it.
type raw struct {
	t      *testing.T
	client *dynamodb.Client
	table  string
}

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func (r *raw) get(pk, sk string) item {
	r.t.Helper()
	out, err := r.client.GetItem(r.t.Context(), &dynamodb.GetItemInput{TableName: &r.table, ConsistentRead: aws.Bool(true),
		Key: item{"pk": text(pk), "sk": text(sk)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Item
}

func (r *raw) put(it item) {
	r.t.Helper()
	if _, err := r.client.PutItem(r.t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: it}); err != nil {
		r.t.Fatal(err)
	}
}

func apply(t *testing.T, s state.Store, changes ...state.Change) []state.Record {
	t.Helper()
	records, err := s.Apply(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func expect(t *testing.T, s state.Store, want state.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want.Key, diff)
	}
}

func TestApply_RecordIsAReadableItem(t *testing.T) {
	t.Parallel()
	s, _, table := behind(t)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	json, packed := []byte(`{"task":"Zürich"}`), []byte{0x1f, 0x8b, 0xff, 0}
	records := apply(t, s, state.Create("run/web/r1", json).Until(end.Add(900*time.Millisecond)), state.Create("inputs/web/000000", packed))

	want := item{"pk": text("run"), "sk": text("web/r1"), "value": text(string(json)), "version": text(records[0].Version),
		"format": number(1), "expires": number(end.Unix())}
	if diff := cmp.Diff(want, table.get("run", "web/r1"), plain); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	want = item{"pk": text("inputs"), "sk": text("web/000000"), "value": &types.AttributeValueMemberB{Value: packed},
		"version": text(records[1].Version), "format": number(1)}
	if diff := cmp.Diff(want, table.get("inputs", "web/000000"), plain); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// plain compares attributes by their values.
var plain = cmp.Transformer("plain", func(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return "number " + v.Value
	case *types.AttributeValueMemberB:
		return v.Value
	}
	return v
})

func TestStore_NumberOfRequests(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	asks := func(what string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, proxy.Requests()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	asks("opening", map[string]int{})
	rec := apply(t, s, state.Create(state.ReconcileKey, []byte("{}")))[0]
	asks("a write", map[string]int{"PutItem": 1})
	expect(t, s, rec)
	asks("a read", map[string]int{"GetItem": 1})
	var changes []state.Change
	for i := range state.MaxWrite - 1 {
		changes = append(changes, state.Create("task/"+strconv.Itoa(i), bytes.Repeat([]byte("v"), 4000)))
	}
	apply(t, s, append(changes, state.Check(rec))...)
	asks("64 changes", map[string]int{"TransactWriteItems": 1})
	if got, err := s.List(t.Context(), "task/"); err != nil || len(got) != 63 {
		t.Errorf("%d records, %v", len(got), err)
	}
	asks("a list of 250 KB", map[string]int{"Query": 1})
	var keys []string
	for i := range 250 {
		keys = append(keys, "task/"+strconv.Itoa(i))
	}
	if got, err := s.GetSeveral(t.Context(), keys); err != nil || len(got) != 63 {
		t.Errorf("%d records, %v", len(got), err)
	}
	asks("250 keys", map[string]int{"BatchGetItem": 3})
}

func TestCheck_AcceptsATableOfTerrapulse(t *testing.T) {
	t.Parallel()
	s, _, _ := behind(t)
	if found, err := s.Check(t.Context()); err != nil || found == "" {
		t.Errorf("check: %q, %v", found, err)
	}
}

// refusal expects a conflict with the current record, or with none.
func refusal(t *testing.T, err error, current *state.Record) {
	t.Helper()
	var refused *state.ConflictError
	if !errors.As(err, &refused) {
		t.Fatalf("%v, want a conflict", err)
	}
	if diff := cmp.Diff(current, refused.Current); diff != "" {
		t.Errorf("what stood in the way (-want +got):\n%s", diff)
	}
}

func TestStore_ReadsSeeConfirmedWrites(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	look := func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(body, []byte(`"ConsistentRead":true`)) {
			t.Errorf("asked was %s, %v", body, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, r)
	}
	proxy.Next("GetItem", look)
	proxy.Next("Query", look, look)
	proxy.Next("BatchGetItem", look)
	for i := range 12 {
		apply(t, s, state.Create(fmt.Sprintf("log/%02d", i), bytes.Repeat([]byte("v"), 120_000)))
	}
	if _, err := s.Get(t.Context(), "log/00"); err != nil {
		t.Error(err)
	}
	if _, err := s.List(t.Context(), "log/"); err != nil {
		t.Error(err)
	}
	if _, err := s.GetSeveral(t.Context(), []string{"log/00", "log/01"}); err != nil {
		t.Error(err)
	}
}
