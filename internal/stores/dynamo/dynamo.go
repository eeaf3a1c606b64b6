// Package dynamo is the store of a deployment in AWS: one DynamoDB table, on
// demand. Table describes it.
//
// A record is one item. Its key is split at the first slash, so that a collection
// is one partition key and List is a query, never a scan. Text values, which are
// all except compressed ones, are readable in the console.
//
// # Load
//
// DynamoDB allows a partition 3,000 reads of 4 KB and 1,000 writes of 1 KB per
// second. 10,000 tasks of 4 KB are 10,000 reads, in a tick that needs all of
// their records; others read the summary, of some 300 KB, and a few records. A tick
// that decides on 1,000 runs writes them in a few seconds; transactions cost
// twice. So for moments the largest collections come close to the limit of one
// partition: refused requests are retried, and DynamoDB splits a busy partition by
// sort key, as long as the table has no local secondary index.
package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// The attributes of an item.
const (
	PartitionKey = "pk"      // the collection
	SortKey      = "sk"      // the rest of the key
	Expires      = "expires" // for the table's time to live: seconds since 1970

	valueName   = "value"
	versionName = "version"
	formatName  = "format"
)

// format is the format of items that this program writes, and the newest that it reads.
const format = 1

const (
	// attempts, with waits of at most 50, 200 and 800 ms, are for errors that the SDK retries: lost
	// connections, internal errors of DynamoDB, throttling. DynamoDB answers in milliseconds and
	// most errors are as short, but the SDK's own waits begin at a second. A tick runs every
	// minute, so after a second the next tick is the better retry.
	attempts = 4
	sdkWait  = 50 * time.Millisecond

	// tries and their waits are for errors that the SDK does not retry, because it regards a
	// cancelled transaction as an answer: another transaction on one of the items, which takes
	// milliseconds, or a partition over its limit, which takes a second or is left to the next
	// tick. All waits together take about 1.5 s.
	tries       = 7
	firstWait   = 25 * time.Millisecond
	longestWait = 500 * time.Millisecond
)

// Store is a state.Store in a DynamoDB table. It is safe for concurrent use.
type Store struct {
	client   *dynamodb.Client
	describe *awsjson.Client // of Check
	table    string
}

var (
	_ state.Store    = (*Store)(nil)
	_ state.Backward = (*Store)(nil)
	_ state.Several  = (*Store)(nil)
)

// New returns the store in a table. It does not check that the table exists: Check does, and every
// request reports it.
func New(cfg aws.Config, table string) *Store {
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.Backoff = attempts, retry.BackoffDelayerFunc(wait)
		})
	})
	return &Store{client: client, describe: awsjson.New(cfg), table: table}
}

// wait returns how long the SDK waits after an attempt; the first attempt is 1. The time is random,
// so that requests that were refused together do not return together.
func wait(attempt int, _ error) (time.Duration, error) {
	most := sdkWait << (2 * max(attempt-1, 0))
	return most/2 + rand.N(most/2), nil
}

// Close implements state.Store.
func (s *Store) Close() error { return nil }

// key returns the primary key of the item of a record.
func key(name string) map[string]types.AttributeValue {
	collection, rest, _ := strings.Cut(name, "/")
	return map[string]types.AttributeValue{
		PartitionKey: &types.AttributeValueMemberS{Value: collection},
		SortKey:      &types.AttributeValueMemberS{Value: rest},
	}
}

// Get implements state.Store with one GetItem.
func (s *Store) Get(ctx context.Context, name string) (state.Record, error) {
	if err := state.ValidateKey(name); err != nil {
		return state.Record{}, err
	}
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: key(name), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return state.Record{}, s.classify(ctx, "read record "+name, err)
	}
	if len(out.Item) == 0 {
		return state.Record{}, state.ErrNotFound
	}
	return s.record(out.Item)
}

// List implements state.Store with a query of as many pages as needed.
func (s *Store) List(ctx context.Context, prefix string) ([]state.Record, error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	return s.query(ctx, prefix, s.queryOf(prefix), -1)
}

// Last implements state.Backward with a query that DynamoDB ends after as many items.
func (s *Store) Last(ctx context.Context, prefix, before string, n int) ([]state.Record, error) {
	if err := state.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	in := s.queryOf(prefix)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(int32(n))
	if before != "" {
		// DynamoDB includes both ends of a range, and no sort key is empty.
		in.KeyConditionExpression = aws.String(PartitionKey + " = :pk AND " + SortKey + " BETWEEN :sk AND :before")
		_, first, _ := strings.Cut(prefix, "/")
		_, last, _ := strings.Cut(before, "/")
		in.ExpressionAttributeValues[":sk"] = &types.AttributeValueMemberS{Value: cmp.Or(first, " ")}
		in.ExpressionAttributeValues[":before"] = &types.AttributeValueMemberS{Value: last}
		*in.Limit++
	}
	records, err := s.query(ctx, prefix, in, int(*in.Limit))
	if len(records) > 0 && records[0].Key == before {
		records = records[1:]
	}
	return records[:min(n, len(records))], err
}

// queryOf is a query of the records whose keys begin with a prefix.
func (s *Store) queryOf(prefix string) *dynamodb.QueryInput {
	collection, rest, _ := strings.Cut(prefix, "/")
	in := &dynamodb.QueryInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String(PartitionKey + " = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: collection}},
	}
	if rest != "" {
		*in.KeyConditionExpression += " AND begins_with(" + SortKey + ", :sk)"
		in.ExpressionAttributeValues[":sk"] = &types.AttributeValueMemberS{Value: rest}
	}
	return in
}

// query returns the records of a query of as many pages as needed, at least n if there are; all if n is
// negative.
func (s *Store) query(ctx context.Context, prefix string, in *dynamodb.QueryInput, n int) ([]state.Record, error) {
	var records []state.Record
	pages := dynamodb.NewQueryPaginator(s.client, in)
	for pages.HasMorePages() && (n < 0 || len(records) < n) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.classify(ctx, "list records "+prefix, err)
		}
		for _, item := range page.Items {
			rec, err := s.record(item)
			if err != nil {
				return nil, err
			}
			records = append(records, rec)
		}
	}
	return records, nil
}

// Apply implements state.Store with one write or one transaction.
func (s *Store) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	if err := state.Validate(changes...); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, nil
	}
	written := make([]state.Record, len(changes))
	for i, c := range changes {
		if c.Op == state.OpCreate || c.Op == state.OpReplace {
			// The unique version identifies this write if its answer is lost.
			written[i] = state.Record{Key: c.Key, Value: c.Value, Version: uuid.NewString()}
		}
	}
	token := uuid.NewString()
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := s.apply(ctx, changes, written, &token)
		if refused, ok := errors.AsType[*Error](err); err != nil && (!ok || !refused.again) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(waits()), backoff.WithMaxTries(tries))
	if err != nil {
		return nil, err
	}
	return written, nil
}

// waits returns the waits between tries.
func waits() backoff.BackOff {
	w := backoff.NewExponentialBackOff()
	w.InitialInterval, w.MaxInterval, w.Multiplier = firstWait, longestWait, 2
	return w
}

// apply makes the changes.
func (s *Store) apply(ctx context.Context, changes []state.Change, written []state.Record, token *string) error {
	// A single write costs half as much as a transaction. But a delete whose answer was lost leaves
	// no version to recognise it by: only the token of a transaction does.
	if len(changes) == 1 && written[0].Key != "" {
		return s.put(ctx, changes[0], written[0])
	}
	return s.transact(ctx, changes, written, token)
}

// put makes one change that writes.
func (s *Store) put(ctx context.Context, c state.Change, written state.Record) error {
	condition, values := condition(c)
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: item(c, written),
		ConditionExpression: &condition, ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if refused := new(types.ConditionalCheckFailedException); errors.As(err, &refused) {
		return s.conflict(c, refused.Item, written.Version)
	}
	if err != nil {
		return s.classify(ctx, "write record "+c.Key, err)
	}
	return nil
}

// transact makes all changes or none. DynamoDB executes a transaction once per token; after a
// cancelled transaction the token changes.
func (s *Store) transact(ctx context.Context, changes []state.Change, written []state.Record, token *string) error {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: token}
	old := types.ReturnValuesOnConditionCheckFailureAllOld
	for i, c := range changes {
		condition, values := condition(c)
		var it types.TransactWriteItem
		switch c.Op {
		case state.OpCreate, state.OpReplace:
			it.Put = &types.Put{TableName: &s.table, Item: item(c, written[i]), ConditionExpression: &condition,
				ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: old}
		case state.OpDelete:
			it.Delete = &types.Delete{TableName: &s.table, Key: key(c.Key), ConditionExpression: &condition,
				ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: old}
		case state.OpCheck:
			it.ConditionCheck = &types.ConditionCheck{TableName: &s.table, Key: key(c.Key), ConditionExpression: &condition,
				ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: old}
		}
		in.TransactItems = append(in.TransactItems, it)
	}
	_, err := s.client.TransactWriteItems(ctx, in)
	cancelled := new(types.TransactionCanceledException)
	if !errors.As(err, &cancelled) || len(cancelled.CancellationReasons) != len(changes) {
		if err != nil {
			err = s.classify(ctx, fmt.Sprintf("write %d records, beginning with %s", len(changes), changes[0].Key), err)
		}
		return err
	}
	*token = uuid.NewString()
	var refused error
	var other *Error
	for i, reason := range cancelled.CancellationReasons {
		c := changes[i]
		switch code := aws.ToString(reason.Code); {
		case code == "" || code == "None":
		case code == "ConditionalCheckFailed":
			err := s.conflict(c, reason.Item, written[i].Version)
			if err == nil {
				return nil // this transaction itself took place before, completely
			}
			if refused == nil {
				refused = err
			}
		case other == nil:
			other = s.reason("write record "+c.Key, code, aws.ToString(reason.Message))
		}
	}
	if refused != nil {
		return refused
	}
	if other == nil {
		other = s.reason("write records, beginning with "+changes[0].Key, cancelled.ErrorCode(), cancelled.ErrorMessage())
	}
	other.again = fault.IsTransient(other)
	return other
}

// conflict returns the error for a false condition, given the existing item; nil if that item is
// the one to be written.
func (s *Store) conflict(c state.Change, there map[string]types.AttributeValue, version string) error {
	if len(there) == 0 {
		return &state.ConflictError{Change: c}
	}
	current, err := s.record(there)
	if err != nil {
		return err
	}
	if version != "" && current.Version == version {
		return nil
	}
	return &state.ConflictError{Change: c, Current: &current}
}

// condition returns the condition of a change.
func condition(c state.Change) (string, map[string]types.AttributeValue) {
	if c.Op == state.OpCreate {
		return "attribute_not_exists(" + PartitionKey + ")", nil
	}
	return versionName + " = :version", map[string]types.AttributeValue{":version": &types.AttributeValueMemberS{Value: c.Version}}
}

// item returns the item of a record.
func item(c state.Change, rec state.Record) map[string]types.AttributeValue {
	it := key(rec.Key)
	it[versionName] = &types.AttributeValueMemberS{Value: rec.Version}
	it[formatName] = &types.AttributeValueMemberN{Value: strconv.Itoa(format)}
	if utf8.Valid(rec.Value) {
		it[valueName] = &types.AttributeValueMemberS{Value: string(rec.Value)}
	} else {
		it[valueName] = &types.AttributeValueMemberB{Value: rec.Value}
	}
	if !c.Expires.IsZero() {
		it[Expires] = &types.AttributeValueMemberN{Value: strconv.FormatInt(c.Expires.Unix(), 10)}
	}
	return it
}

// record decodes an item.
func (s *Store) record(it map[string]types.AttributeValue) (state.Record, error) {
	collection, ok1 := it[PartitionKey].(*types.AttributeValueMemberS)
	rest, ok2 := it[SortKey].(*types.AttributeValueMemberS)
	if !ok1 || !ok2 {
		return state.Record{}, s.schema("read an item", nil)
	}
	rec := state.Record{Key: collection.Value + "/" + rest.Value}
	f, ok := it[formatName].(*types.AttributeValueMemberN)
	if !ok {
		return state.Record{}, s.edited(rec.Key, formatName)
	}
	if n, err := strconv.Atoi(f.Value); err != nil || n > format {
		return state.Record{}, s.person("read record "+rec.Key,
			fmt.Errorf("it has format %s, but this program supports formats up to %d", f.Value, format),
			"a newer Terrapulse has written it: use that version, or restore the table to a time before it")
	}
	version, ok := it[versionName].(*types.AttributeValueMemberS)
	if !ok || version.Value == "" {
		return state.Record{}, s.edited(rec.Key, versionName)
	}
	rec.Version = version.Value
	switch v := it[valueName].(type) {
	case *types.AttributeValueMemberS:
		rec.Value = []byte(v.Value)
	case *types.AttributeValueMemberB:
		rec.Value = v.Value
	default:
		return state.Record{}, s.edited(rec.Key, valueName)
	}
	return rec, nil
}

func (s *Store) edited(name, attribute string) error {
	return s.person("read record "+name, fmt.Errorf("its attribute %q is missing or of another type", attribute),
		"was it edited by hand? put it back as it was, or restore the table to a time before that")
}
