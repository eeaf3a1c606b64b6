package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// Table returns the input of CreateTable for a table of Terrapulse; template.yaml creates the same
// table, with more settings.
func Table(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(PartitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(SortKey), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(PartitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(SortKey), AttributeType: types.ScalarAttributeTypeS},
		},
	}
}

// Check reports the state of the table, or what is wrong with it. The SDK's client would make each
// function larger by all that DynamoDB says of a table.
func (s *Store) Check(ctx context.Context) (found string, err error) {
	var described struct {
		Table struct {
			KeySchema                 []types.KeySchemaElement
			AttributeDefinitions      []types.AttributeDefinition
			TableStatus               types.TableStatus
			ItemCount                 int64
			DeletionProtectionEnabled bool
			Replicas                  []types.ReplicaDescription
		}
	}
	input := map[string]string{"TableName": s.table}
	if err := s.describe.Call(ctx, awsjson.DescribeTable, "", input, &described); err != nil {
		return "", s.classify(ctx, "read the keys", err)
	}
	table, keys := described.Table, map[types.KeyType]string{}
	for _, k := range table.KeySchema {
		keys[k.KeyType] = aws.ToString(k.AttributeName)
	}
	for _, a := range table.AttributeDefinitions {
		if name := aws.ToString(a.AttributeName); (name == PartitionKey || name == SortKey) && a.AttributeType != types.ScalarAttributeTypeS {
			return "", s.schema("read the keys", fmt.Errorf("its key %s is of type %s", name, a.AttributeType))
		}
	}
	if keys[types.KeyTypeHash] != PartitionKey || keys[types.KeyTypeRange] != SortKey {
		return "", s.schema("read the keys", fmt.Errorf("its keys are %q and %q", keys[types.KeyTypeHash], keys[types.KeyTypeRange]))
	}
	if status := table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		return "", &Error{kind: fault.Transient, act: "check the table", table: s.table, cause: fmt.Errorf("it is %s", status)}
	}
	if len(table.Replicas) > 0 { // each region would decide about conditional writes for itself
		return "", s.person("check the table", errors.New("it is a global table, in which two regions can hold the same lease"),
			"remove its replicas, or deploy a new stack with its own table")
	}
	var ttl struct{ TimeToLiveDescription types.TimeToLiveDescription }
	if err := s.describe.Call(ctx, awsjson.DescribeTimeToLive, "", input, &ttl); err != nil {
		return "", s.classify(ctx, "read the time to live", err)
	}
	on := []types.TimeToLiveStatus{types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling}
	if d := ttl.TimeToLiveDescription; aws.ToString(d.AttributeName) != Expires || !slices.Contains(on, d.TimeToLiveStatus) {
		return "", s.person("read the time to live", fmt.Errorf("it does not remove items by their attribute %q", Expires),
			"switch it on: otherwise expired records stay")
	}
	protected := "not protected against deletion"
	if table.DeletionProtectionEnabled {
		protected = "protected against deletion"
	}
	return fmt.Sprintf("table %s exists, with about %d records; it is %s", s.table, table.ItemCount, protected), nil
}
