package dynamo_test

import (
	"io"
	"maps"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

func TestCheck_RefusesATableOfAnotherProgram(t *testing.T) {
	t.Parallel()
	url := dynamotest.Start(t)
	for name, change := range map[string]func(*dynamodb.CreateTableInput){
		"no sort key": func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = in.KeySchema[:1], in.AttributeDefinitions[:1]
		},
		"other names": func(in *dynamodb.CreateTableInput) {
			in.KeySchema[0].AttributeName, in.AttributeDefinitions[0].AttributeName = aws.String("LockID"), aws.String("LockID")
		},
		"other types": func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions[1].AttributeType = types.ScalarAttributeTypeN
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := dynamo.Table("test-" + uuid.NewString())
			change(in)
			if _, err := dynamodb.NewFromConfig(dynamotest.Config(url)).CreateTable(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			s := dynamo.New(dynamotest.Config(url), *in.TableName)
			const advice = "needs the string keys pk (partition) and sk (sort)"
			_, err := s.Get(t.Context(), "task/a")
			says(t, err, false, *in.TableName, advice)
			if name != "no sort key" { // that takes any item that has a partition key
				_, err = s.Apply(t.Context(), state.Create("task/a", nil))
				says(t, err, false, *in.TableName, advice)
				_, err = s.Apply(t.Context(), state.Create("task/a", nil), state.Create("task/b", nil))
				says(t, err, false, *in.TableName, advice)
				_, err = s.List(t.Context(), "task/a")
				says(t, err, false, *in.TableName, advice)
			}
			_, err = s.Check(t.Context())
			says(t, err, false, *in.TableName, advice)
		})
	}
}

func TestCheck_ReportsAMissingTable(t *testing.T) {
	t.Parallel()
	s := dynamo.New(dynamotest.Config(dynamotest.Start(t)), "nope")
	const advice = "check its name and the region"
	_, err := s.Get(t.Context(), "task/a")
	says(t, err, false, "table nope", advice)
	_, err = s.List(t.Context(), "task/")
	says(t, err, false, "table nope", advice)
	_, err = s.Apply(t.Context(), state.Create("task/a", nil))
	says(t, err, false, "table nope", advice)
	_, err = s.Apply(t.Context(), state.Create("task/a", nil), state.Create("task/b", nil))
	says(t, err, false, "table nope", advice)
	_, err = s.Check(t.Context())
	says(t, err, false, "table nope", advice)
}

// DynamoDB Local has no replicas: the answer that names one is written here.
func TestCheck_RefusesAGlobalTable(t *testing.T) {
	t.Parallel()
	s, proxy, table := behind(t)
	if _, err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Next("DescribeTable", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		io.WriteString(w, `{"Table": {"TableStatus": "ACTIVE", "GlobalTableVersion": "2019.11.21", "Replicas": [{"RegionName": "eu-central-1", "ReplicaStatus": "ACTIVE"}],
			"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]}}`)
	})
	_, err := s.Check(t.Context())
	says(t, err, false, table.table, "it is a global table", "remove its replicas")
}

func TestCheck_ReportsMissingExpiry(t *testing.T) {
	t.Parallel()
	url := dynamotest.Start(t)
	in := dynamo.Table("test-" + uuid.NewString())
	if _, err := dynamodb.NewFromConfig(dynamotest.Config(url)).CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	s := dynamo.New(dynamotest.Config(url), *in.TableName)
	_, err := s.Check(t.Context())
	says(t, err, false, *in.TableName, "expires", "switch it on")
	_, err = dynamodb.NewFromConfig(dynamotest.Config(url)).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: in.TableName,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Check(t.Context())
	says(t, err, false, *in.TableName, "expires", "switch it on")
}

func TestStore_ReportsAnItemThatWasEditedByHand(t *testing.T) {
	t.Parallel()
	s, _, table := behind(t)
	written := apply(t, s, state.Create("task/a", []byte("{}")))[0]
	good := table.get("task", "a")
	for name, tt := range map[string]struct {
		edit func(item)
		says string
	}{
		"no version":        {func(it item) { delete(it, "version") }, `"version" is missing or of another type`},
		"an empty version":  {func(it item) { it["version"] = text("") }, `"version" is missing or of another type`},
		"a numeric version": {func(it item) { it["version"] = number(1) }, `"version" is missing or of another type`},
		"no value":          {func(it item) { delete(it, "value") }, `"value" is missing or of another type`},
		"a map as value":    {func(it item) { it["value"] = &types.AttributeValueMemberM{} }, `"value" is missing or of another type`},
		"no format":         {func(it item) { delete(it, "format") }, `"format" is missing or of another type`},
		"a format in words": {func(it item) { it["format"] = text("one") }, `"format" is missing or of another type`},
		"a newer format":    {func(it item) { it["format"] = number(2) }, "format 2, but this program supports formats up to 1; a newer Terrapulse"},
		"a strange format":  {func(it item) { it["format"] = &types.AttributeValueMemberN{Value: "1.5"} }, "format 1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			it := maps.Clone(good)
			tt.edit(it)
			table.put(it)
			_, err := s.Get(t.Context(), "task/a")
			says(t, err, false, "read record task/a", tableName, tt.says)
			_, err = s.List(t.Context(), "task/")
			says(t, err, false, "read record task/a", tt.says)
			_, err = s.Apply(t.Context(), state.Create("task/a", nil))
			says(t, err, false, "read record task/a", tt.says)
			_, err = s.Apply(t.Context(), state.Create("task/b", nil), state.Create("task/a", nil))
			says(t, err, false, "read record task/a", tt.says)
		})
	}
	table.put(good)
	expect(t, s, written)
	more := maps.Clone(good)
	more["note"] = text("mine")
	table.put(more)
	expect(t, s, written) // further attributes do no harm
}
