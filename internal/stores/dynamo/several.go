package dynamo

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// keysAtOnce is how many keys DynamoDB takes in one BatchGetItem.
const keysAtOnce = 100

// GetSeveral implements state.Several with a BatchGetItem for each 100 keys.
func (s *Store) GetSeveral(ctx context.Context, keys []string) (map[string]state.Record, error) {
	records := make(map[string]state.Record, len(keys))
	for some := range slices.Chunk(keys, keysAtOnce) {
		if err := s.getBatch(ctx, some, records); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// getBatch adds records. DynamoDB leaves keys out if the answer would exceed 16 MB, and if a partition is over its
// limit: after a wait, they are requested again.
func (s *Store) getBatch(ctx context.Context, keys []string, records map[string]state.Record) error {
	act := fmt.Sprintf("read %d records, beginning with %s,", len(keys), keys[0])
	left := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, name := range keys {
		left.Keys = append(left.Keys, key(name))
	}
	between := waits()
	for tried := 0; ; {
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{s.table: left}})
		if err != nil {
			return s.classify(ctx, act, err)
		}
		got := out.Responses[s.table]
		for _, item := range got {
			rec, err := s.record(item)
			if err != nil {
				return err
			}
			records[rec.Key] = rec
		}
		left.Keys = out.UnprocessedKeys[s.table].Keys
		if len(left.Keys) == 0 {
			return nil
		}
		if len(got) > 0 {
			tried = 0
			between.Reset()
		}
		if tried++; tried == tries {
			return s.reason(act, "ProvisionedThroughputExceededException", fmt.Sprintf("%d of them were left out of each of %d answers", len(left.Keys), tries))
		}
		if !delay.For(ctx, between.NextBackOff()) {
			return fmt.Errorf("%s in DynamoDB table %s: %w", act, s.table, ctx.Err())
		}
	}
}
